"""Packs at a real Broker: what is taken, what is refused of them, and how they come out for old and new consumers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.errors import Code
from pytubemq.model.durability import Durability
from pytubemq.model.limits import (
    MAX_RECORD_BATCH_BYTES,
    MAX_RECORD_BATCH_FAULTS,
    MAX_RECORD_BATCH_MESSAGES,
    MAX_RECORD_BATCHES,
    MIB,
)
from pytubemq.model.topic import TopicConfig
from pytubemq.testing.disk import FaultyDisk
from pytubemq.wire.batch import fetch_batches
from pytubemq.wire.batch.payload import HAS_ATTRIBUTES, encode_payload
from pytubemq.wire.protocol.extensions import OURS, Capability
from pytubemq.wire.protocol.messages.broker import GetMessageRequestC2B
from pytubemq.wire.protocol.messages.extension import ReadRangeRequestC2B
from pytubemq.wire.rpc.methods import Method
from pytubemq.wire.serialization.message_bytes import encode
from tests.scenario.broker.held_writes import HeldWrites
from tests.scenario.broker.packs import pack, send_packs
from tests.scenario.broker.support import TIMEOUT_S, connected, item, running, service
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.scenario.broker.support import Peer

pytestmark = pytest.mark.anyio
NEW = OURS | Capability.PACKS | Capability.IDEMPOTENT
OLD = OURS & ~(Capability.PACKS | Capability.IDEMPOTENT)


async def get_packs(peer: Peer, **fields: Any) -> list[tuple[int, bytes]]:
    """Offset and payload of what a consumer that takes packs is given, as it would split it."""
    request = GetMessageRequestC2B(
        client_id=peer.client_id, partition_id=0, group_name=peer.group, topic_name=peer.topic, **fields
    )
    response = await peer.connection.call(Method.GET_MESSAGE_C2B, 2, encode(request), timeout_s=TIMEOUT_S)
    head, records, damaged = fetch_batches.decode_get_message(response.body)
    assert not damaged
    return [one for one in _split(records) if one[0] >= (head.curr_offset or 0)]


async def read_packs(peer: Peer, offset: int, **fields: Any) -> list[tuple[int, bytes]]:
    request = ReadRangeRequestC2B(
        client_id=peer.client_id, topic_name=peer.topic, partition_id=0, offset=offset, **fields
    )
    response = await peer.connection.call(Method.READ_RANGE_C2B, 2, encode(request), timeout_s=TIMEOUT_S)
    return _split(fetch_batches.decode_read_range(response.body).records)


def _split(records: Sequence[object]) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    for record in records:
        if isinstance(record, fetch_batches.FetchedBatch):
            found += ((record.head.offset + 28 * at, payload) for at, payload in enumerate(record.columns.payloads()))
        else:
            found.append((record.offset, record.payload))  # type: ignore[attr-defined]
    return found


async def test_packs_and_singles_stand_in_one_log_and_both_kinds_of_consumers_read_all_of_it() -> None:
    async with running() as broker, connected(broker, capabilities=NEW) as peer:
        first = await send_packs(peer, pack(b"a", b"b", b"c"), pack(b"d"))
        assert (first.success, first.err_code) == (True, Code.SUCCESS)
        assert first.append_time is not None
        assert [[(span.messages, span.code, span.first_offset) for span in spans] for spans in first.results] == [
            [(3, 200, 0)],
            [(1, 200, 84)],
        ]
        await peer.send_each([item(b"e")])
        await send_packs(peer, pack(b"f", b"g"))
        everything = [(28 * n, bytes([ord("a") + n])) for n in range(7)]
        await peer.register()
        assert await get_packs(peer) == everything
        assert await read_packs(peer, 0) == everything
        async with connected(broker, capabilities=OLD) as old:
            old.group, old.client_id = "old", "old_127.0.0.1-1-1-1-Pull-1.0"
            await old.register()
            head, messages = await old.get()
            assert [(message.offset, message.payload) for message in messages] == everything
            assert (head.curr_offset, head.next_offset, head.max_offset) == (0, 196, 196)
            ids = [message.message_id for message in messages]
            assert ids == sorted(set(ids))
            assert ids[0] == first.results[0][0].first_message_id
            assert messages[0].append_time == first.append_time


async def test_an_old_consumer_stops_and_goes_on_within_a_pack() -> None:
    async with running() as broker, connected(broker, capabilities=NEW) as peer:
        await send_packs(peer, pack(*(b"%d" % n for n in range(10))))
        async with connected(broker, capabilities=OLD) as old:
            await old.register()
            head, messages = await old.get(max_messages=4)
            assert ([message.payload for message in messages], head.next_offset) == ([b"0", b"1", b"2", b"3"], 112)
            assert (await old.commit()).curr_offset == 112
            head, messages = await old.get(max_messages=100)
            assert (messages[0].payload, head.curr_offset) == (b"4", 112)
            _, messages = await old.read_range(56, end_offset=112)
            assert [message.payload for message in messages] == [b"2", b"3"]
        await peer.register()
        assert (await get_packs(peer))[0] == (112, b"4"), "the group stands within the pack"


async def test_a_filter_takes_its_messages_out_of_packs() -> None:
    async with running() as broker, connected(broker, capabilities=NEW) as peer:
        await send_packs(peer, pack(b"a", b"b", code=96354), pack(b"c", b"d", code=[96354, 7]), pack(b"e", code=7))
        async with connected(broker, capabilities=OLD) as old:
            await old.register(filter_cond_str=("abc",))
            head, messages = await old.get()
            assert ([message.payload for message in messages], head.next_offset) == ([b"a", b"b", b"c"], 140)
        await peer.register(filter_cond_str=("abc",))
        assert [payload for _, payload in await get_packs(peer)] == [b"a", b"b", b"c", b"d"], "the reader looks itself"


async def test_messages_that_cannot_be_taken_are_refused_by_themselves() -> None:
    async with running() as broker, connected(broker, capabilities=NEW) as peer:
        answer = await send_packs(peer, pack(b"a", b"", b"", b"b", bytes(2 * MIB)), pack(b"c"))
        assert [[(span.messages, span.code, span.first_offset) for span in spans] for spans in answer.results] == [
            [(1, 200, 0), (2, 400, -1), (1, 200, 28), (1, 400, -1)],
            [(1, 200, 56)],
        ]
        assert (answer.success, answer.err_code) == (False, Code.BAD_REQUEST)
        assert "empty" in answer.err_msg
        nowhere = await send_packs(peer, pack(b"a", b"b"), partition_id=9)
        assert [(span.messages, span.code) for span in nowhere.results[0]] == [(2, 403)]
        good, flag = encode_payload(b"body", {"k": "v"})
        claims = await send_packs(peer, pack(good, b"abc", b"\x00\x00\xff\xffx", good, flag=flag))
        assert [(span.messages, span.code) for span in claims.results[0]] == [(1, 200), (1, 400), (1, 400), (1, 200)]
        assert await read_packs(peer, 0) == [(0, b"a"), (28, b"b"), (56, b"c"), (84, good), (112, good)]


async def test_packs_full_of_messages_that_cannot_be_taken_are_refused_whole_and_do_not_swell_the_answer() -> None:
    holes = pack(*([b"", b"x"] * (MAX_RECORD_BATCH_MESSAGES // 2)))
    few = pack(b"a", *[b""] * MAX_RECORD_BATCH_FAULTS, b"b")
    claims = pack(*[b"x"] * MAX_RECORD_BATCH_MESSAGES, flag=HAS_ATTRIBUTES)
    async with running() as broker, connected(broker, capabilities=NEW) as peer:
        answer = await send_packs(peer, holes, few, holes, pack(b""), claims, pack(b"c"))
        assert [[(span.messages, span.code, span.first_offset) for span in spans] for spans in answer.results] == [
            [(MAX_RECORD_BATCH_MESSAGES, 400, -1)],
            [(1, 200, 0), (MAX_RECORD_BATCH_FAULTS, 400, -1), (1, 200, 28)],
            [(MAX_RECORD_BATCH_MESSAGES, 400, -1)],
            [(1, 400, -1)],
            [(MAX_RECORD_BATCH_MESSAGES, 400, -1)],
            [(1, 200, 56)],
        ]
        assert f"more than {MAX_RECORD_BATCH_FAULTS} messages of the request" in answer.err_msg
        assert "the message is empty" in answer.err_msg
        assert await read_packs(peer, 0) == [(0, b"a"), (28, b"b"), (56, b"c")]


async def test_what_is_no_pack_is_refused_with_the_whole_request() -> None:
    async with running() as broker, connected(broker, capabilities=NEW) as peer:
        damaged = bytearray(pack(b"hello"))
        damaged[-1] ^= 1
        for packs, text in (
            ([pack(b"a"), bytes(damaged)], "record batch 1 of the request"),
            ([b"nonsense"], "record batch 0 of the request"),
            ([pack(bytes(MAX_RECORD_BATCH_BYTES), bytes(10), b"x")], "a record batch ends with"),
            ([pack(b"x")] * (MAX_RECORD_BATCHES + 1), "more than"),
            ([], "no record batch"),
        ):
            answer = await send_packs(peer, *packs)
            assert (answer.err_code, answer.results) == (Code.BAD_REQUEST, [])
            assert text in answer.err_msg
        assert (await send_packs(peer, pack(b"x"), sequence=-1)).err_code == Code.BAD_REQUEST
        assert (await send_packs(peer, pack(b"x"), topic="nosuch")).err_code == Code.FORBIDDEN
        assert broker.health()["messages"] == 0


async def test_a_repeat_is_told_where_it_stands_and_stored_once_also_after_a_crash() -> None:
    disk = FaultyDisk(seed=9)
    broker = service(disk)
    await broker.start()
    async with connected(broker, capabilities=NEW) as peer:
        first = await send_packs(peer, pack(b"a", b"b"), sequence=0)
        again = await send_packs(peer, pack(b"a", b"b"), sequence=0)
        half = await send_packs(peer, pack(b"b", b"c"), sequence=1)
        assert [span[:4] for span in again.results[0]] == [span[:4] for span in first.results[0]]
        assert [span.repeated for span in again.results[0]] == [True]
        assert [(span.messages, span.first_offset, span.repeated) for span in half.results[0]] == [
            (1, 28, True),
            (1, 56, False),
        ]
        disk.crash()
    await broker.close()
    async with running(disk) as broker, connected(broker, capabilities=NEW) as peer:
        again = await send_packs(peer, pack(b"c", b"d"), sequence=2)
        assert [(span.messages, span.first_offset, span.repeated) for span in again.results[0]] == [
            (1, 56, True),
            (1, 84, False),
        ]
        newer = await send_packs(peer, pack(b"e"), sequence=0, epoch=1)
        assert newer.success
        fenced = await send_packs(peer, pack(b"f"), sequence=4, epoch=0)
        assert (fenced.err_code, fenced.results[0][0].code) == (Code.FORBIDDEN, Code.FORBIDDEN)
        assert fenced.err_msg
        old = await read_packs(peer, 0, end_offset=84)  # from the disk, then from memory
        assert [payload for _, payload in old + await read_packs(peer, 84)] == [b"a", b"b", b"c", b"d", b"e"]


async def test_a_pack_that_was_refused_for_now_keeps_later_ones_out(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    async with running(disk) as broker, connected(broker, capabilities=NEW) as peer:
        assert (await send_packs(peer, pack(b"0"), seen=0)).success
        disk.capacity_bytes = 0
        assert (await send_packs(peer, pack(b"1" * 1000), seen=0)).err_code == Code.SERVER_RECEIVE_OVERFLOW
        disk.capacity_bytes = None
        behind = await send_packs(peer, pack(b"2"), seen=0)
        assert (behind.err_code, behind.results) == (Code.SERVER_RECEIVE_OVERFLOW, [])
        assert (await send_packs(peer, pack(b"1"), seen=2)).success
        assert (await send_packs(peer, pack(b"2"), seen=2)).success
        assert [payload for _, payload in await read_packs(peer, 0)] == [b"0", b"1", b"2"]


async def test_a_held_fetch_is_answered_with_the_pack_that_comes() -> None:
    async with running() as broker, connected(broker, capabilities=NEW) as peer, connected(broker) as producer:
        await peer.register()
        waiting = asyncio.create_task(get_packs(peer, max_wait_ms=30_000))
        await until(lambda: broker.health()["held_fetches"] == 1)
        await send_packs(producer, pack(b"a", b"b"))
        assert await waiting == [(0, b"a"), (28, b"b")]


async def test_nothing_of_a_pack_is_readable_before_it_is_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as broker, connected(broker, capabilities=NEW) as peer, connected(broker) as reader:
        held = HeldWrites(broker, monkeypatch)
        sending = asyncio.create_task(send_packs(peer, pack(b"a", b"b")))
        await until(lambda: held.entered == 1)
        assert (await reader.read_range(0))[0].err_code == Code.NOT_FOUND
        assert not sending.done()
        held.go.set()
        assert (await sending).success


async def test_a_topic_that_promises_from_memory_answers_and_shows_messages_before_they_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fast = TopicConfig("fast", 1, durability=Durability.MEMORY)
    async with (
        running(topics=(TopicConfig("demo", 1), fast)) as broker,
        connected(broker, capabilities=NEW) as peer,
        connected(broker, capabilities=OLD) as other,
    ):
        held = HeldWrites(broker, monkeypatch)
        slow = asyncio.create_task(send_packs(peer, pack(b"slow")))
        await until(lambda: held.entered == 1)
        quick = asyncio.create_task(send_packs(peer, pack(b"a", b"b"), topic="fast"))
        single = asyncio.create_task(other.send(b"c", topic="fast"))
        held.go.set()
        await slow
        assert [(await quick).success, (await single).success] == [True, True]
        # Answered is not written yet: this one is, and all before it.
        assert (await send_packs(peer, pack(b"written"))).success
        held.go.clear()
        last = await send_packs(peer, pack(b"d"), topic="fast")
        assert last.results[0][0].first_offset == 84, "answered although nothing is being written"
        other.topic = "fast"
        assert [message.payload for message in (await other.read_range(0))[1]] == [b"a", b"b", b"c", b"d"]
        held.go.set()


async def test_offsets_by_time_are_those_of_the_first_message_at_or_after_it() -> None:
    async with running() as broker, connected(broker, capabilities=NEW) as peer:
        await send_packs(peer, pack(b"a", b"b"))
        async with connected(broker, capabilities=OLD) as old:
            first_ms = (await old.read_range(0))[1][0].append_time or 0
        for time_ms, expected in ((0, 0), (first_ms, 0), (first_ms + 3_600_000, 56)):
            answer = await peer.offsets(("demo", 0), ("demo", 1), not_before_ms=time_ms)
            assert [part.offset_by_time for part in answer.partitions] == [expected, 0]
        plain = await peer.offsets(("demo", 0))
        assert plain.partitions[0].offset_by_time is None
