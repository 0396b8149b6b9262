"""What every Broker must answer: the real one, and the mock that tests put in its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.errors import Code
from pytubemq.net.client.connection import RpcConnection
from pytubemq.testing.disk import FaultyDisk
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.rpc.methods import Method
from tests.scenario.broker.support import SINGLY, Peer, connected, item, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pytubemq.wire.batch.stored import StoredMessage

pytestmark = pytest.mark.anyio

PARTITIONS = 3
OTHER = "g_127.0.0.1-2-2-2-Pull-1.0"


@dataclass
class Subject:
    """A Broker with the topic `demo` and a connection to it."""

    peer: Peer
    disk: FaultyDisk | None = None
    mock: MockBroker | None = None

    def refuse_writes(self, method: Method) -> None:
        """Have the next request of a method refused with 419, as by a full disk."""
        if self.mock is not None:
            self.mock.fail_next(method, code=Code.SERVER_RECEIVE_OVERFLOW)
        if self.disk is not None:
            self.disk.capacity_bytes = 0

    def take_writes(self) -> None:
        """End that."""
        if self.disk is not None:
            self.disk.capacity_bytes = None


@pytest.fixture(params=["broker", "mock"])
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    if request.param == "broker":
        disk = FaultyDisk()
        async with running(disk) as broker, connected(broker, capabilities=SINGLY) as peer:
            yield Subject(peer, disk=disk)
        return
    async with MockBroker(topics={"demo": PARTITIONS}) as mock:
        connection = await RpcConnection.connect(mock.broker_address, capabilities=SINGLY)
        try:
            yield Subject(Peer(connection), mock=mock)
        finally:
            await connection.close()


def payloads(messages: Sequence[StoredMessage]) -> list[bytes]:
    return [message.payload for message in messages]


async def fill(peer: Peer, count: int = 5) -> None:
    """Messages 0, 1, 2... in partition 0."""
    assert (await peer.send_each([item(b"%d" % number) for number in range(count)])).success


# --- sending --------------------------------------------------------------------------------------------------------


async def test_a_message_gets_the_next_offset(subject: Subject) -> None:
    first, second = await subject.peer.send(b"a"), await subject.peer.send(b"b")
    assert (first.success, first.append_offset, second.append_offset) == (True, 0, 28)
    assert first.message_id != second.message_id


@pytest.mark.parametrize(
    ("payload", "partition_id", "topic", "code"),
    [(b"", 0, "demo", 400), (b"x", PARTITIONS, "demo", 403), (b"x", 0, "nosuch", 403)],
)
async def test_a_message_that_cannot_be_taken_is_refused(
    subject: Subject, payload: bytes, partition_id: int, topic: str, code: int
) -> None:
    answer = await subject.peer.send(payload, partition_id, topic=topic)
    assert (answer.success, answer.err_code) == (False, code)
    assert answer.err_msg


async def test_a_batch_is_answered_entry_by_entry(subject: Subject) -> None:
    answer = await subject.peer.send_many([item(b"a"), item(b"b", 1), item(b"c")])
    assert (answer.success, list(answer.err_codes), list(answer.offsets)) == (True, [200, 200, 200], [0, 0, 28])


async def test_entries_that_cannot_be_taken_are_refused_alone(subject: Subject) -> None:
    answer = await subject.peer.send_many([item(b"a"), item(b"b", 9), item(b""), item(b"c")])
    assert (answer.success, answer.err_code) == (False, 400)
    assert list(answer.err_codes) == [200, 403, 400, 200]
    assert list(answer.offsets) == [0, -1, -1, 28]


async def test_a_batch_without_messages_or_topic_is_refused_whole(subject: Subject) -> None:
    assert (await subject.peer.send_many([])).err_code == 400
    subject.peer.topic = "nosuch"
    answer = await subject.peer.send_many([item()])
    assert (answer.err_code, list(answer.err_codes)) == (403, [])


async def test_a_batch_that_left_before_a_refusal_was_known_is_refused(subject: Subject) -> None:
    peer = subject.peer
    assert (await peer.send_many([item(b"0")], refusals_seen=0)).success
    subject.refuse_writes(Method.SEND_PACKS_P2B)
    assert (await peer.send_many([item(b"1")], refusals_seen=0)).err_code == 419
    subject.take_writes()
    assert (await peer.send_many([item(b"2")], refusals_seen=0)).err_code == 419
    assert (await peer.send_many([item(b"1")], refusals_seen=2)).success
    assert (await peer.send_many([item(b"2")], refusals_seen=2)).success
    assert (await peer.send_many([item(b"3")])).success
    assert payloads((await peer.read_range(0))[1]) == [b"0", b"1", b"2", b"3"]


# --- registering ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("read_status", "begins"), [(0, 0), (1, 140), (2, 140)])
async def test_where_a_new_group_begins(subject: Subject, read_status: int, begins: int) -> None:
    await fill(subject.peer)
    answer = await subject.peer.register(read_status=read_status)
    assert (answer.curr_offset, answer.max_offset) == (begins, 140)


@pytest.mark.parametrize(("fields", "begins"), [({}, 56), ({"read_status": 2}, 140), ({"curr_offset": 29}, 28)])
async def test_where_a_known_group_goes_on(subject: Subject, fields: dict[str, Any], begins: int) -> None:
    await fill(subject.peer)
    await subject.peer.register()
    assert (await subject.peer.commit(up_to=56)).success
    assert (await subject.peer.register(**fields)).curr_offset == begins


async def test_a_partition_has_one_holder_in_a_group(subject: Subject) -> None:
    peer = subject.peer
    await peer.register()
    mine, peer.client_id = peer.client_id, OTHER
    assert (await peer.register()).err_code == Code.PARTITION_OCCUPIED
    assert (await peer.register(op_type=32, read_status=1)).err_code == Code.DUPLICATE_PARTITION
    assert (await peer.get())[0].err_code == Code.DUPLICATE_PARTITION
    assert (await peer.commit()).err_code == Code.UNAUTHORIZED
    peer.client_id = mine
    assert (await peer.register(op_type=32, read_status=1)).success
    peer.client_id = OTHER
    assert (await peer.register()).success


async def test_who_is_not_registered_is_told_so(subject: Subject) -> None:
    peer = subject.peer
    assert (await peer.get())[0].err_code == Code.HB_NO_NODE
    assert (await peer.commit()).err_code == Code.UNAUTHORIZED
    assert (await peer.register(op_type=32)).err_code == Code.HB_NO_NODE
    answer = await peer.heartbeat("1:127.0.0.1:8123#demo:0")
    assert answer.has_part_failure
    assert answer.failure_info == ("411:1:127.0.0.1:8123#demo:0",)


@pytest.mark.parametrize(("topic", "partition_id", "code"), [("nosuch", 0, 403), ("demo", PARTITIONS, 500)])
async def test_what_does_not_exist_cannot_be_registered_for(
    subject: Subject, topic: str, partition_id: int, code: int
) -> None:
    """500 is the original's: its clients try again, which is right while a topic grows."""
    subject.peer.topic = topic
    assert (await subject.peer.register(partition_id)).err_code == code


# --- fetching and confirming ----------------------------------------------------------------------------------------


async def test_what_is_not_confirmed_comes_again(subject: Subject) -> None:
    peer = subject.peer
    await fill(peer)
    await peer.register()
    for _ in range(2):
        head, messages = await peer.get(max_messages=2, last_pack_consumed=False)
        assert (head.curr_offset, head.next_offset, head.max_offset) == (0, 56, 140)
        assert payloads(messages) == [b"0", b"1"]
    assert (await peer.commit(last_pack_consumed=False)).curr_offset == 0
    assert payloads((await peer.get(max_messages=2))[1]) == [b"0", b"1"]
    assert (await peer.commit()).curr_offset == 56
    assert payloads((await peer.get(max_messages=2))[1]) == [b"2", b"3"]
    assert payloads((await peer.get(max_messages=2, last_pack_consumed=True))[1]) == [b"4"]


async def test_the_end_is_not_found(subject: Subject) -> None:
    await subject.peer.register()
    head, messages = await subject.peer.get(max_wait_ms=1)
    assert (head.success, head.err_code, messages) == (False, Code.NOT_FOUND, [])


@pytest.mark.parametrize("fields", [{"up_to": 56}, {"last_pack_consumed": True}])
async def test_a_refused_confirm_leaves_no_trace(subject: Subject, fields: dict[str, Any]) -> None:
    peer = subject.peer
    await fill(peer)
    await peer.register()
    await peer.get(max_messages=2)
    subject.refuse_writes(Method.CONSUMER_COMMIT_C2B)
    assert (await peer.commit(**fields)).err_code == Code.SERVER_RECEIVE_OVERFLOW
    subject.take_writes()
    assert payloads((await peer.get(max_messages=2))[1]) == [b"0", b"1"]
    assert (await peer.commit(**fields)).curr_offset == 56
    assert payloads((await peer.get(max_messages=2))[1]) == [b"2", b"3"]


@pytest.mark.parametrize("offset", [-1, 168])
async def test_a_confirm_outside_the_partition_is_refused(subject: Subject, offset: int) -> None:
    await fill(subject.peer)
    await subject.peer.register()
    assert (await subject.peer.commit(up_to=offset)).err_code == Code.BAD_REQUEST


async def test_a_confirm_never_goes_back(subject: Subject) -> None:
    await fill(subject.peer)
    await subject.peer.register()
    assert (await subject.peer.commit(up_to=85)).curr_offset == 84
    assert (await subject.peer.commit(up_to=28)).curr_offset == 84


async def test_leaving_confirms_only_what_is_said_to_be_consumed(subject: Subject) -> None:
    peer = subject.peer
    await fill(peer)
    await peer.register()
    await peer.get(max_messages=2)
    await peer.register(op_type=32, read_status=1)
    assert (await peer.register()).curr_offset == 0
    await peer.get(max_messages=2)
    await peer.register(op_type=32, read_status=0)
    assert (await peer.register()).curr_offset == 56


async def test_a_filter_passes_over_other_types(subject: Subject) -> None:
    peer = subject.peer
    await peer.send_each([item(b"a", msg_type="x"), item(b"b", msg_type="y"), item(b"c")])
    await peer.register(filter_cond_str=("y",))
    assert payloads((await peer.get())[1]) == [b"b"]


# --- reading without a group ----------------------------------------------------------------------------------------


async def test_a_range_is_read_and_touches_no_group(subject: Subject) -> None:
    peer = subject.peer
    await fill(peer)
    head, messages = await peer.read_range(28, end_offset=112, max_messages=2)
    assert (payloads(messages), head.next_offset, head.min_offset, head.max_offset) == ([b"1", b"2"], 84, 0, 140)
    head, messages = await peer.read_range(140, max_wait_ms=1)
    assert (head.err_code, head.next_offset, head.max_offset, messages) == (Code.NOT_FOUND, 140, 140, [])
    assert (await peer.read_range(280))[0].max_offset == 140


@pytest.mark.parametrize(
    ("offset", "end", "partition_id", "code"), [(-28, None, 0, 400), (56, 28, 0, 400), (0, None, PARTITIONS, 403)]
)
async def test_what_is_no_range_is_refused(
    subject: Subject, offset: int, end: int | None, partition_id: int, code: int
) -> None:
    assert (await subject.peer.read_range(offset, partition_id, end_offset=end))[0].err_code == code


async def test_ends_are_told_of_what_there_is(subject: Subject) -> None:
    await fill(subject.peer)
    answer = await subject.peer.offsets(("demo", 0), ("demo", 9), ("nosuch", 0))
    assert [(ends.partition_id, ends.min_offset, ends.max_offset) for ends in answer.partitions] == [(0, 0, 140)]
    assert len((await subject.peer.offsets()).partitions) == PARTITIONS
