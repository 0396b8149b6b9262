"""Requests that carry messages to a Broker, and the packs in them.

The invariants: messages of one partition leave in the order they were queued in; a message that has left with a number
leaves with the same one again, and the numbers within a pack follow each other.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, cast

from pytubemq.client.bunch import Bunch, one_by_one
from pytubemq.client.parcel import Parcel
from pytubemq.model.filters import NO_FILTER_CODE, filter_code
from pytubemq.wire.pack import encode_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.client.pending import Pending, Unit
    from pytubemq.model.ids import Partition
    from pytubemq.net.connection import RpcConnection

_code_of = lru_cache(maxsize=1024)(filter_code)


class Pack(NamedTuple):
    """Messages of one partition that leave as one pack: a parcel by itself, or single messages or bunches in order."""

    units: list[Pending] | list[Bunch] | list[Parcel]
    columns: bytes

    @property
    def entry(self) -> tuple[int, bytes, int | None]:
        """As a request wants it."""
        first = self.units[0]
        return first.partition.partition_id, self.columns, first.sequence


class Flight(NamedTuple):
    """A request on its way."""

    units: Sequence[Unit]
    connection: RpcConnection
    counted: bool
    """Whether its refusal counts: single messages are not counted."""
    asked: bool
    """Whether it was to find out what the Broker has counted."""
    packs: list[Pack]
    """None in a request that knows no packs."""


class Numbers:
    """The numbers of a producer's messages, in each partition from 0."""

    __slots__ = ("_next", "epoch", "producer_id")

    def __init__(self, producer_id: int | None, epoch: int = 0) -> None:
        """`producer_id` None: messages get no numbers. `epoch`: which of its lives the producer is in."""
        self.producer_id = producer_id
        self.epoch = epoch
        self._next: dict[int, int] = {}
        """By Broker and partition in one number: a partition's own hash costs more than all the rest of this."""

    def give(self, partition: Partition, units: Sequence[Unit]) -> None:
        """Number those that have no number yet."""
        if self.producer_id is None:
            return
        place = partition.broker_id << 32 | partition.partition_id
        following = self._next.get(place, 0)
        for unit in units:
            if unit.sequence is None:
                unit.sequence = following
                following += unit.count
        self._next[place] = following

    def give_each(self, messages: Sequence[Pending]) -> None:
        """`give` for messages of any partitions."""
        following = self._next
        for one in messages:
            if one.sequence is None:
                partition = one.partition
                place = partition.broker_id << 32 | partition.partition_id
                one.sequence = sequence = following.get(place, 0)
                following[place] = sequence + 1


def make_packs(units: Sequence[Unit], numbers: Numbers) -> list[Pack]:
    """Packs of all these messages; those of one partition in order, with numbers that follow each other in each."""
    packs: list[Pack] = []
    filling: dict[Partition, list[Pending | Bunch]] = {}
    latest: Partition | None = None
    group: list[Pending | Bunch] = []
    for unit in units:
        if isinstance(unit, Parcel):
            partition = unit.partition
            unit.lot.started = True
            _close(packs, partition, filling.pop(partition, None), numbers)
            latest = None
            numbers.give(partition, (unit,))
            packs.append(Pack([unit], unit.columns))
            continue
        if unit.partition is not latest:
            latest = unit.partition
            group = filling.setdefault(latest, [])
        group.append(unit)
    for partition, group in filling.items():
        _close(packs, partition, group, numbers)
    return packs


def _close(packs: list[Pack], partition: Partition, group: list[Pending | Bunch] | None, numbers: Numbers) -> None:
    if not group:
        return
    numbers.give(partition, group)
    kinds = set(map(type, group))
    if kinds == {Bunch}:
        bunches = cast("list[Bunch]", group)
        following = bunches[0].sequence
        for bunch in bunches:
            if bunch.sequence != following:
                break
            following = None if following is None else following + bunch.count
        else:
            packs.append(_pack_of_bunches(bunches))
            return
    messages = list(one_by_one(group)) if Bunch in kinds else group
    _close_messages(packs, cast("list[Pending]", messages))


def _close_messages(packs: list[Pack], group: list[Pending]) -> None:
    first = group[0].sequence
    if first is None or [one.sequence for one in group] == list(range(first, first + len(group))):
        packs.append(_pack(group))
        return
    # what is sent again may have been partly taken meanwhile: a pack's numbers follow each other
    for _, run in groupby(enumerate(group), lambda item: (item[1].sequence or 0) - item[0]):
        packs.append(_pack([one for _, one in run]))


def _pack_of_bunches(group: list[Bunch]) -> Pack:
    payloads = group[0].payloads if len(group) == 1 else [payload for bunch in group for payload in bunch.payloads]
    return Pack(group, encode_columns(payloads, 0, NO_FILTER_CODE))


def _pack(group: list[Pending]) -> Pack:
    flags = {one.flag for one in group}
    types = {one.msg_type for one in group}
    return Pack(
        group,
        encode_columns(
            [one.payload for one in group],
            flags.pop() if len(flags) == 1 else [one.flag for one in group],
            _code(types.pop()) if len(types) == 1 else [_code(one.msg_type) for one in group],
        ),
    )


def _code(msg_type: str | None) -> int:
    return NO_FILTER_CODE if not msg_type or msg_type.isspace() else _code_of(msg_type)
