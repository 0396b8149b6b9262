"""The position at which a group, or a reader, begins to read."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, unique
from typing import TYPE_CHECKING, Any

from pytubemq.client.option_checks import check_between
from pytubemq.errors import Code, ConfigError, MessageError
from pytubemq.model.ids import Partition

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_SESSION_KEY_CHARS = 1_024


@unique
class Start(Enum):
    """The start of a group, or a reader, without a position of its own.

    For a group EARLIEST and LATEST only matter in a partition where it has confirmed nothing yet; ALWAYS_LATEST
    forgets its position and goes to the end.
    """

    EARLIEST = "earliest"
    LATEST = "latest"
    ALWAYS_LATEST = "always latest"

    @property
    def read_status(self) -> int:
        """The protocol's number in a registration at a Broker."""
        return {Start.EARLIEST: 0, Start.LATEST: 1, Start.ALWAYS_LATEST: 2}[self]


_START_TEXTS = frozenset(start.value for start in Start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A group whose members begin together: at given offsets, and not before all of them are there.

    All members give the same key, count and `select_big`; each claims the partitions whose offsets it gives. What
    nobody claims is divided as usual once the claims are met. After its first partitions a member is as any other.
    """

    session_key: str
    """The name of this run of the group, for example the id of the job."""
    source_count: int
    """The number of members."""
    select_big: bool = True
    """Of two members that claim one partition the larger offset wins, or else the smaller."""
    offsets: Mapping[Partition, int] = field(default_factory=dict)
    """Offsets to begin at instead of the group's positions; a key may also be the text `brokerId:topic:partitionId`."""

    def __post_init__(self) -> None:
        key: object = self.session_key
        if not isinstance(key, str) or not key.strip() or len(key) > MAX_SESSION_KEY_CHARS:
            raise ConfigError(f"session_key is {key!r}", hint=f"write 1 to {MAX_SESSION_KEY_CHARS} characters")
        check_between("source_count", self.source_count, 1, 1_000_000)
        offsets: dict[Partition, int] = {}
        given: Mapping[Any, int] = self.offsets
        for named, offset in given.items():
            partition: Partition = Partition.parse(named) if isinstance(named, str) else named
            check_between(f"the offset of {partition}", offset, 0, (1 << 63) - 1)
            offsets[partition] = offset
        object.__setattr__(self, "offsets", offsets)


def named_start(place: Start | str | datetime | int) -> Start | str | datetime | int:
    """Return the `Start` that a text names, as in "earliest"; anything else as it is."""
    return Start(place) if isinstance(place, str) and place in _START_TEXTS else place


def check_start(start: Start | str) -> Start:
    """Return a `Start`, also from a text, as in "earliest".

    Raises:
        ConfigError: it is none.
    """
    try:
        return Start(start)
    except ValueError:
        raise ConfigError(
            f"start is {start!r}",
            hint="write Start.EARLIEST, Start.LATEST or Start.ALWAYS_LATEST, or as texts 'earliest', 'latest', "
            "'always latest'",
        ) from None


def check_place(name: str, place: int | Start | str | datetime) -> int | Start | datetime:
    """Return a place in a partition: an offset, a `Start`, also from a text, or a time.

    Raises:
        ConfigError: it is none.
        MessageError: the offset is negative.
    """
    place = named_start(place)
    if isinstance(place, (Start, datetime)):
        return place
    if not isinstance(place, int) or isinstance(place, bool):
        raise ConfigError(f"{name} is {place!r}", hint="write an offset, 'earliest', 'latest', or a datetime")
    if place < 0:
        raise MessageError(f"{name} is {place}", hint="offsets count from 0", code=Code.BAD_REQUEST)
    return place
