"""Fetch answers into Arrow columns: for any mix of packs and single messages the rows of the message path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.client.received.columns import Gathered, Run, gather
from pytubemq.client.received.unpacker import Unpacker
from pytubemq.model.ids import Partition
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.spark.source.arrow import BatchBuilder
from pytubemq.spark.source.read import fetch_rows
from pytubemq.spark.source.read.fetch_rows import build
from pytubemq.spark.source.schema import COLUMNS
from pytubemq.wire.batch.checksum import check_sum
from pytubemq.wire.batch.fetch_batches import DamagedBatch, FetchedBatch
from pytubemq.wire.batch.payload import encode_payload
from pytubemq.wire.batch.record_batch import RecordBatchHead, encode_columns, read_columns
from pytubemq.wire.batch.stored import StoredMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    Payload = tuple[bytes, int]

PARTITION = Partition(3, "demo", 2)
ZONE = ZoneInfo("Asia/Shanghai")


def sent(body: bytes, attributes: dict[str, str], msg_type: str | None, msg_time: str | None) -> Payload:
    return encode_payload(body, attributes, msg_type=msg_type, msg_time=msg_time)


names = st.text("abcxyz", min_size=1, max_size=3)
bodies = st.binary(min_size=1, max_size=12)
honest = st.builds(
    sent,
    bodies,
    st.dictionaries(names, names, max_size=2),
    st.none() | st.sampled_from(["even", "odd"]),
    st.none() | st.sampled_from(["201301011000", "202402292359"]),
)
claimed = st.tuples(st.binary(max_size=9), st.sampled_from([0, 1, 2, 3]))
"""Payloads that may lie about their attributes."""
negative = st.just((b"\xff\xff\xff\xffbody", 1))
not_utf8 = st.just((b"\x00\x00\x00\x02\xff\xfebody", 1))
payloads = honest | honest | claimed | negative | not_utf8
stretches = st.lists(st.tuples(st.booleans(), st.lists(payloads, min_size=1, max_size=6)), max_size=5)
honest_stretches = st.lists(st.tuples(st.booleans(), st.lists(honest, min_size=1, max_size=6)), max_size=5)


def records_of(
    stretches: Sequence[tuple[bool, list[Payload]]], *, start: int = 0
) -> list[StoredMessage | FetchedBatch]:
    """Each stretch as a pack, or as messages stored alone."""
    made: list[StoredMessage | FetchedBatch] = []
    number = start
    for packed, messages in stretches:
        time_ms = 1_700_000_000_000 + number
        if packed:
            flags = [flag for _, flag in messages]
            one = flags[0] if len(set(flags)) == 1 else flags
            columns = read_columns(encode_columns([payload for payload, _ in messages], one, 0))
            made.append(FetchedBatch(RecordBatchHead(number * OFFSET_UNIT, 1000 + number, time_ms), columns))
        else:
            made.extend(
                StoredMessage(1000 + at, check_sum(payload), payload, flag, at * OFFSET_UNIT, time_ms, None, None, None)
                for at, (payload, flag) in enumerate(messages, number)
            )
        number += len(messages)
    return made


def rows_of(gathered: Gathered, columns: Sequence[str] = COLUMNS, wanted: frozenset[str] | None = None) -> Any:
    batch = build(BatchBuilder(PARTITION, columns, ZONE), gathered, wanted=wanted)
    batch.validate(full=True)
    return batch


@given(stretches | honest_stretches, st.integers(0, 8), st.integers(0, 8))
def test_the_rows_are_those_of_the_message_path(
    stretches: list[tuple[bool, list[Payload]]], before: int, behind: int
) -> None:
    records = records_of(stretches)
    count = sum(len(messages) for _, messages in stretches)
    start, end = before * OFFSET_UNIT, max(count - behind, before) * OFFSET_UNIT
    in_range = [
        record
        for record in records
        if isinstance(record, FetchedBatch) or (record.offset is not None and start <= record.offset < end)
    ]
    expected = Unpacker(PARTITION, raw=True).read(in_range, start=start, end=end)
    gathered = gather(records, (), start=start, end=end)
    batch = rows_of(gathered)
    assert batch == BatchBuilder(PARTITION, COLUMNS, ZONE).build(expected.messages, malformed=expected.malformed)
    assert gathered.gap(start, end) == expected.gap(start, end)


@given(stretches)
def test_wanted_types_are_chosen_by_their_text(stretches: list[tuple[bool, list[Payload]]]) -> None:
    records = records_of(stretches)
    wanted = frozenset({"odd"})
    expected = Unpacker(PARTITION, wanted, raw=True).read(records)
    batch = rows_of(gather(records, (), start=0, end=1 << 40), wanted=wanted)
    assert batch == BatchBuilder(PARTITION, COLUMNS, ZONE).build(expected.messages, malformed=expected.malformed)


@pytest.mark.parametrize("columns", [("body",), ("offset", "topic"), ("msgType",), ("messageId", "attributes")])
@given(honest_stretches)
def test_chosen_columns_in_the_order_chosen(
    columns: tuple[str, ...], stretches: list[tuple[bool, list[Payload]]]
) -> None:
    records = records_of(stretches)
    known = [name for name in columns if name in COLUMNS]
    expected = Unpacker(PARTITION, raw=True).read(records)
    batch = rows_of(gather(records, (), start=0, end=1 << 40), known)
    assert batch == BatchBuilder(PARTITION, known, ZONE).build(expected.messages)


def test_a_message_without_a_time_has_null_there() -> None:
    untimed = StoredMessage(7, check_sum(b"a"), b"a", 0, 0, None, None, None, None)
    records = [untimed, *records_of([(True, [(b"b", 0)])], start=1)]
    batch = rows_of(gather(records, (), start=0, end=56), ["timestamp"])
    first, second = batch.to_pylist()
    assert first["timestamp"] is None
    assert second["timestamp"] is not None


def test_what_fails_its_check_is_a_gap_with_a_reason() -> None:
    first, second, third = records_of([(False, [(b"a", 0), (b"b", 0), (b"c", 0)])])
    assert isinstance(second, StoredMessage)
    gathered = gather([first, second._replace(check_sum=1), third], (), start=0, end=84)
    assert gathered.gap(0, 84) == (28, 56)
    assert gathered.unreadable == ["its checksum does not match"]
    damaged = gather([first], [DamagedBatch(28, "a pack fails its check", 2)], start=0, end=84)
    assert damaged.gap(0, 84) == (28, 84)
    assert damaged.unreadable == ["a pack fails its check"]


@given(honest_stretches)
def test_honest_payloads_are_never_looked_at_one_by_one(stretches: list[tuple[bool, list[Payload]]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch_rows, "_split_slowly", lambda *_: pytest.fail("one by one"))
        rows_of(gather(records_of(stretches), (), start=0, end=1 << 40))


@pytest.mark.parametrize("told_ms", [2**63 - 1, -(2**63), 2**62])
def test_a_time_that_no_column_can_have_is_the_nearest_one(told_ms: int) -> None:
    times = fetch_rows._times([Run(2, 0, 0, told_ms)])
    assert [abs(time.as_py()) // 10**15 for time in times] == [9223, 9223]
