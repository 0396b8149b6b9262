"""Options of the client, checked when they are given.

The invariant: an option that makes no sense is refused where it is written, by name, before anything is connected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, unique
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, get_args

from pytubemq.errors import ConfigError, MessageError
from pytubemq.model.ids import Partition
from pytubemq.model.limits import (
    CONFIRM_TIMEOUT_S,
    DEFAULT_REQUEST_TIMEOUT_S,
    MAX_FETCH_MESSAGES,
    MAX_FETCH_WAIT_S,
    MAX_FILTER_ITEM_CHARS,
    MAX_FILTER_ITEMS,
    MAX_REQUEST_TIMEOUT_S,
    MAX_TOPICS_PER_CLIENT,
    PRODUCER_BUFFER_BYTES,
    PRODUCER_BUFFER_MESSAGES,
)
from pytubemq.model.names import check_topic

if TYPE_CHECKING:
    from datetime import datetime

    from pytubemq.client.partition_state import Known

MAX_SESSION_KEY_CHARS = 1_024
MAX_PUSH_WORKERS = 1_000
FirstConnect = Literal["fail", "wait"]
OnError = Literal["retry", "skip", "stop"]
"""Actions of a push consumer after its handler raised: fetch the batch again, confirm it all the same, or end."""
OnMalformed = Literal["raise", "raw"]
"""Actions of a reader for a message whose payload does not contain the attributes that it claims."""


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
class ConnectOptions:
    """Options of a connection to a cluster."""

    first_connect: FirstConnect = "fail"
    request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S
    client_name: str = ""
    known: Known | None = None

    def __post_init__(self) -> None:
        if self.first_connect not in ("fail", "wait"):
            raise ConfigError(f"first_connect is {self.first_connect!r}", hint="write 'fail' or 'wait'")
        _check_between("request_timeout_s", self.request_timeout_s, 0.05, MAX_REQUEST_TIMEOUT_S)
        if any(char in self.client_name for char in "@#_") or len(self.client_name) > 100:
            raise ConfigError(
                f"client_name is {self.client_name!r}", hint="use at most 100 characters, without @, # and _"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    """Options of a producer."""

    linger_s: float = 0.0
    max_buffer_messages: int = PRODUCER_BUFFER_MESSAGES
    max_buffer_bytes: int = PRODUCER_BUFFER_BYTES
    delivery_timeout_s: float = 60.0
    close_timeout_s: float = 10.0
    batching: bool = True
    idempotent: bool = True

    def __post_init__(self) -> None:
        _check_between("linger_s", self.linger_s, 0.0, 10.0)
        _check_between("max_buffer_messages", self.max_buffer_messages, 1, 10_000_000)
        _check_between("max_buffer_bytes", self.max_buffer_bytes, 1, 1 << 40)
        _check_between("delivery_timeout_s", self.delivery_timeout_s, 0.05, 86_400.0)
        _check_between("close_timeout_s", self.close_timeout_s, 0.0, 3_600.0)


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
        _check_between("source_count", self.source_count, 1, 1_000_000)
        offsets: dict[Partition, int] = {}
        given: Mapping[Any, int] = self.offsets
        for named, offset in given.items():
            partition: Partition = Partition.parse(named) if isinstance(named, str) else named
            _check_between(f"the offset of {partition}", offset, 0, (1 << 63) - 1)
            offsets[partition] = offset
        object.__setattr__(self, "offsets", offsets)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """Options of a consumer of a group."""

    group: str
    topics: tuple[str, ...]
    filters: Mapping[str, frozenset[str]]
    start: Start = Start.LATEST
    confirm_timeout_s: float | None = CONFIRM_TIMEOUT_S
    """None: a batch is never given back automatically."""
    close_timeout_s: float = 5.0
    fetch_interval_s: float = 0.0
    max_messages_per_s: float | None = None
    max_bytes_per_s: float | None = None
    bound: Bound | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", check_start(self.start))
        _check_between("fetch_interval_s", self.fetch_interval_s, 0.0, 3_600.0)
        if self.max_messages_per_s is not None:
            _check_between("max_messages_per_s", self.max_messages_per_s, 0.001, 1e9)
        if self.max_bytes_per_s is not None:
            _check_between("max_bytes_per_s", self.max_bytes_per_s, 1.0, 1e12)
        for partition in self.bound.offsets if self.bound is not None else ():
            if partition.topic not in self.topics:
                raise ConfigError(
                    f"bound.offsets names {partition}, of a topic that this consumer does not read",
                    hint=f"its topics are {', '.join(self.topics)}",
                )
        if self.confirm_timeout_s is not None:
            _check_between("confirm_timeout_s", self.confirm_timeout_s, 0.05, 86_400.0)
        _check_between("close_timeout_s", self.close_timeout_s, 0.0, 3_600.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """Limits of one fetch: its messages, its bytes, and the Broker's long poll."""

    max_messages: int = 500
    max_bytes: int | None = None
    max_wait_s: float = 1.0
    idle_timeout_s: float | None = None

    def __post_init__(self) -> None:
        _check_between("max_messages", self.max_messages, 1, MAX_FETCH_MESSAGES)
        _check_between("max_wait_s", self.max_wait_s, 0.0, MAX_FETCH_WAIT_S)
        if self.max_bytes is not None:
            _check_between("max_bytes", self.max_bytes, 1, 1 << 31)
        if self.idle_timeout_s is not None:
            _check_between("idle_timeout_s", self.idle_timeout_s, 0.0, 1e9)


@dataclass(frozen=True, slots=True, kw_only=True)
class PushOptions:
    """Options of a push consumer."""

    workers: int = 8
    by_message: bool = False
    on_error: OnError = "retry"
    max_messages: int = 500
    max_bytes: int | None = None
    max_wait_s: float = 1.0

    def __post_init__(self) -> None:
        _check_between("workers", self.workers, 1, MAX_PUSH_WORKERS)
        if self.on_error not in get_args(OnError):
            raise ConfigError(f"on_error is {self.on_error!r}", hint="write 'retry', 'skip' or 'stop'")
        FetchOptions(max_messages=self.max_messages, max_bytes=self.max_bytes, max_wait_s=self.max_wait_s)


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


def check_topics(topics: Sequence[str]) -> tuple[str, ...]:
    """Return the topics of a consumer: at least one, each once, each with a name that every peer takes."""
    if not topics:
        raise ConfigError("a consumer needs a topic", hint="write  tube.consumer('group', 'topic')")
    given: Sequence[object] = topics
    for topic in given:
        if not isinstance(topic, str):
            names = ", ".join(map(repr, topic)) if isinstance(topic, (list, tuple, set, frozenset)) else "'a', 'b'"
            raise ConfigError(
                f"a topic is named by text, not {type(topic).__name__}",
                hint=f"write the topics one after the other: tube.consumer(group, {names})",
            )
    if len(topics) > MAX_TOPICS_PER_CLIENT:
        raise ConfigError(f"{len(topics)} topics are too many for one consumer; at most {MAX_TOPICS_PER_CLIENT}")
    return tuple(dict.fromkeys(check_topic(topic) for topic in topics))


def check_filters(
    topics: tuple[str, ...], filters: Mapping[str, Sequence[str]] | Sequence[str] | None
) -> dict[str, frozenset[str]]:
    """Return filter items by topic. A plain sequence holds for every topic; a topic without items gets everything."""
    if not filters:
        return {}
    if isinstance(filters, str):
        raise ConfigError(f"filters is the text {filters!r}", hint=f"write a list: filters=[{filters!r}]")
    per_topic = filters if isinstance(filters, Mapping) else dict.fromkeys(topics, filters)
    found: dict[str, frozenset[str]] = {}
    for topic, items in per_topic.items():
        if topic not in topics:
            raise ConfigError(f"filters name the topic {topic!r}, which this consumer does not read")
        if isinstance(items, str):
            raise ConfigError(f"the filters of {topic} are the text {items!r}", hint=f"write a list: [{items!r}]")
        clean = frozenset(_filter_item(topic, item) for item in items)
        if len(clean) > MAX_FILTER_ITEMS:
            raise ConfigError(f"{len(clean)} filter items for {topic}; at most {MAX_FILTER_ITEMS}")
        if clean:
            found[topic] = clean
    return found


def _filter_item(topic: str, item: object) -> str:
    if not isinstance(item, str):
        raise ConfigError(f"a filter item for {topic} is {item!r}", hint=f"write texts: filters=[{str(item)!r}]")
    text = item.strip()
    if not text or len(text) > MAX_FILTER_ITEM_CHARS or any(char in text for char in ",=#@"):
        raise MessageError(
            f"not a filter item for {topic}: {item!r}",
            hint=f"use 1 to {MAX_FILTER_ITEM_CHARS} characters, without , = # and @",
            code=400,
        )
    return text


def _check_between(name: str, value: Any, least: float, most: float) -> None:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:
        shown = _plain(value) if is_number else repr(value)[:80]
        raise ConfigError(f"{name} is {shown}", hint=f"write a number from {_plain(least)} to {_plain(most)}")


def _plain(number: float) -> str:
    """Format a number for people: 1,000,000 and not 1e+06."""
    return f"{number:,.0f}" if abs(number) < 1e18 and number == int(number) else f"{number:g}"
