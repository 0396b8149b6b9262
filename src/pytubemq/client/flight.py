"""Requests that carry messages to a Broker: what goes into one, and what its answer says of each message.

The invariants: messages of one partition leave in the order they were queued in; a message that has left with a number
leaves with the same one again; an answer that does not fit its request says nothing of any message.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, cast

from pytubemq.client.parcel import Parcel
from pytubemq.client.receipts import Stretch
from pytubemq.errors import Code, TubeError, refused
from pytubemq.model.filters import NO_FILTER_CODE, filter_code
from pytubemq.model.limits import MAX_PACK_BYTES, MAX_PACK_MESSAGES
from pytubemq.model.message import Receipt
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.wire.pack import encode_columns

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Sequence

    from pytubemq.client.pending import Pending, Unit
    from pytubemq.model.ids import Partition
    from pytubemq.net.connection import RpcConnection
    from pytubemq.wire.messages.extension import SendBatchResponseB2P
    from pytubemq.wire.pack_send import PacksAnswer, SpanAnswer

_code_of = lru_cache(maxsize=1024)(filter_code)


class Pack(NamedTuple):
    """Messages of one partition that leave as one pack: a parcel by itself, or single messages in order."""

    units: list[Pending] | list[Parcel]
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

    __slots__ = ("_next", "producer_id")

    def __init__(self, producer_id: int | None) -> None:
        """`producer_id` None: messages get no numbers."""
        self.producer_id = producer_id
        self._next: dict[Partition, int] = {}

    def give(self, partition: Partition, units: Sequence[Unit]) -> None:
        """Number those that have no number yet."""
        if self.producer_id is None:
            return
        following = self._next.get(partition, 0)
        for unit in units:
            if unit.sequence is None:
                unit.sequence = following
                following += unit.count
        self._next[partition] = following


# --- packs ------------------------------------------------------------------------------------------------------


def take_units(queue: deque[Unit]) -> tuple[list[Unit], list[Unit]]:
    """Take out of the queue what fits into one request of packs; those to send, and those nobody waits for."""
    taken: list[Unit] = []
    dropped: list[Unit] = []
    messages = size_bytes = 0
    while queue:
        unit = queue[0]
        messages += unit.count
        size_bytes += unit.size_bytes
        if taken and (size_bytes > MAX_PACK_BYTES or messages > MAX_PACK_MESSAGES):
            break
        queue.popleft()
        if unit.future.done():
            dropped.append(unit)
            messages -= unit.count
            size_bytes -= unit.size_bytes
        else:
            taken.append(unit)
    return taken, dropped


def make_packs(units: Sequence[Unit], numbers: Numbers) -> list[Pack]:
    """Packs of all these messages; those of one partition in order, with numbers that follow each other in each."""
    packs: list[Pack] = []
    filling: dict[Partition, list[Pending]] = {}
    latest: Partition | None = None
    group: list[Pending] = []
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


def _close(packs: list[Pack], partition: Partition, group: list[Pending] | None, numbers: Numbers) -> None:
    if not group:
        return
    numbers.give(partition, group)
    first = group[0].sequence
    if first is None or [one.sequence for one in group] == list(range(first, first + len(group))):
        packs.append(_pack(group))
        return
    # what is sent again may have been partly taken meanwhile: a pack's numbers follow each other
    for _, run in groupby(enumerate(group), lambda item: (item[1].sequence or 0) - item[0]):
        packs.append(_pack([one for _, one in run]))


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


# --- answers ----------------------------------------------------------------------------------------------------


class Outcome:
    """What an answer says of the messages of a request."""

    __slots__ = ("bytes_taken", "refused", "taken")

    def __init__(self) -> None:
        self.taken = 0
        """Messages."""
        self.bytes_taken = 0
        self.refused: list[tuple[Unit, TubeError]] = []

    def deliver(
        self,
        units: Sequence[Pending],
        ids: Sequence[int],
        offsets: Sequence[int | None],
        time_ms: int | None,
        *,
        repeated: bool = False,
    ) -> None:
        """These have been taken, one after the other as the sequences say."""
        size_bytes = 0
        for pending, message_id, offset in zip(units, ids, offsets, strict=True):
            size_bytes += pending.size_bytes
            future = pending.future
            if not future.done():
                future.set_result(Receipt(pending.partition, message_id, offset, time_ms, repeated))
        self.taken += len(units)
        self.bytes_taken += size_bytes

    def read_batch(self, units: Sequence[Pending], answer: SendBatchResponseB2P) -> None:
        """What an answer says of the messages of a batch.

        Raises:
            TubeError: it does not fit them, so what became of them is not known.
        """
        codes, ids, offsets = answer.err_codes, answer.message_ids, answer.offsets
        if not codes and answer.err_code != Code.SUCCESS:
            error = refused(answer.err_code, answer.err_msg)
            self.refused.extend((unit, error) for unit in units)
            return
        if not len(codes or ids) == len(ids) == len(offsets) == len(units):
            raise _unfit("the answer does not fit the batch")
        if codes.count(Code.SUCCESS) == len(codes):
            self.deliver(units, ids, offsets, answer.append_time)
            return
        good = [n for n, code in enumerate(codes) if code == Code.SUCCESS]
        self.deliver([units[n] for n in good], [ids[n] for n in good], [offsets[n] for n in good], answer.append_time)
        errors = {code: refused(code, answer.err_msg) for code in codes if code != Code.SUCCESS}
        self.refused.extend((unit, errors[code]) for unit, code in zip(units, codes, strict=True) if code in errors)


def read_packs(packs: Sequence[Pack], answer: PacksAnswer) -> Outcome:
    """What an answer says of the messages of its packs.

    Raises:
        TubeError: it does not fit them, so what became of them is not known.
    """
    outcome = Outcome()
    if not answer.results:
        if answer.err_code == Code.SUCCESS:
            raise _unfit("the answer does not tell where the messages are")
        error = refused(answer.err_code, answer.err_msg)
        outcome.refused.extend((unit, error) for pack in packs for unit in pack.units)
        return outcome
    if len(answer.results) != len(packs):
        raise _unfit(f"an answer about {len(answer.results)} packs to a request of {len(packs)}")
    for pack, spans in zip(packs, answer.results, strict=True):
        if sum(span.messages for span in spans) != sum(unit.count for unit in pack.units):
            raise _unfit("the answer does not fit the messages of a pack")
    for pack, spans in zip(packs, answer.results, strict=True):
        first = pack.units[0]
        if isinstance(first, Parcel):
            _read_parcel(outcome, first, spans, answer)
        else:
            _read_messages(outcome, cast("list[Pending]", pack.units), spans, answer)
    return outcome


def _read_messages(outcome: Outcome, units: list[Pending], spans: Sequence[SpanAnswer], answer: PacksAnswer) -> None:
    at = 0
    for count, code, offset, message_id, repeated, text in spans:
        part = units if count == len(units) else units[at : at + count]
        at += count
        if code != Code.SUCCESS:
            error = refused(code, text or answer.err_msg)
            outcome.refused.extend((one, error) for one in part)
            continue
        known = offset >= 0
        outcome.deliver(
            part,
            range(message_id, message_id + count) if known else (0,) * count,
            range(offset, offset + count * OFFSET_UNIT, OFFSET_UNIT) if known else (None,) * count,
            answer.append_time,
            repeated=repeated,
        )


def _read_parcel(outcome: Outcome, parcel: Parcel, spans: Sequence[SpanAnswer], answer: PacksAnswer) -> None:
    at = 0
    for count, code, offset, message_id, repeated, text in spans:
        whole = count == parcel.count
        if code != Code.SUCCESS:
            error = refused(code, text or answer.err_msg)
            outcome.refused.append((parcel if whole else parcel.part(at, at + count), error))
        else:
            known = offset >= 0
            stretch = Stretch(
                parcel.at + at,
                count,
                offset if known else None,
                message_id if known else 0,
                answer.append_time,
                repeated,
            )
            outcome.taken += count
            outcome.bytes_taken += parcel.size_bytes if whole else parcel.bytes_between(at, at + count)
            parcel.lot.took(stretch)
        at += count


def _unfit(text: str) -> TubeError:
    error = TubeError(text)
    error.retriable = True
    return error
