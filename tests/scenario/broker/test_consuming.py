"""A consumer's life at a real Broker: registration, fetch, confirmation, long wait, farewell, takeover."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pytubemq.errors import Code
from pytubemq.wire.protocol.extensions import Capability
from tests.scenario.broker.support import Peer, connected, item, running, service
from tests.support.waiting import until

pytestmark = pytest.mark.anyio
LONG_MS = 30_000


async def test_what_is_sent_is_fetched_and_confirmed_exactly() -> None:
    async with running() as broker, connected(broker) as peer:
        await peer.send_each([item(b"%d" % n) for n in range(10)])
        assert (await peer.register()).curr_offset == 0
        head, messages = await peer.get(max_messages=4)
        assert [message.payload for message in messages] == [b"0", b"1", b"2", b"3"]
        assert (head.curr_offset, head.next_offset, head.max_offset) == (0, 112, 280)
        assert [message.offset for message in messages] == [0, 28, 56, 84]
        assert (await peer.commit()).curr_offset == 112
        head, messages = await peer.get()
        assert (head.curr_offset, len(messages)) == (112, 6)
        head, messages = await peer.get(last_pack_consumed=False)
        assert len(messages) == 6, "what was not confirmed comes again"
        head, _ = await peer.get(last_pack_consumed=True)
        assert head.err_code == Code.NOT_FOUND
        # what a fetch confirms becomes durable behind its answer
        await until(lambda: broker._store is not None and broker._store.confirmed("g", "demo", 0) == 280)
        positions = await peer.offsets(all_groups=True)
        assert [(g.group_name, g.partition_id, g.confirmed_offset) for g in positions.groups] == [("g", 0, 280)]


async def test_reading_ahead_and_confirming_up_to_an_offset() -> None:
    async with running() as broker, connected(broker) as peer:
        await peer.send_each([item(b"%d" % n) for n in range(10)])
        await peer.register()
        first, _ = await peer.get(max_messages=3, manual_commit_offset=True)
        second, _ = await peer.get(max_messages=3, manual_commit_offset=True)
        assert (first.next_offset, second.curr_offset) == (84, 84)
        assert (await peer.commit(up_to=first.next_offset)).curr_offset == 84
        third, _ = await peer.get(manual_commit_offset=True)
        assert third.curr_offset == 168, "the commit of an earlier batch does not disturb the reading"
        assert (await peer.commit(up_to=28)).curr_offset == 84, "a late commit moves nothing back"
        assert (await peer.commit(up_to=10_000)).err_code == Code.BAD_REQUEST
        assert (await peer.commit(up_to=-28)).err_code == Code.BAD_REQUEST


async def test_a_filter_reads_its_types_and_confirms_what_it_passed_over() -> None:
    async with running() as broker, connected(broker) as peer:
        await peer.send_each([item(b"%d" % n, msg_type="abc" if n % 2 else "def") for n in range(10)])
        await peer.register(filter_cond_str=(" abc ", "", "abc"))
        head, messages = await peer.get()
        assert [message.payload for message in messages] == [b"1", b"3", b"5", b"7", b"9"]
        await peer.commit()
        await peer.send_each([item(b"no", msg_type="def")])
        head, messages = await peer.get()
        assert (head.err_code, messages, head.next_offset) == (Code.SUCCESS, [], 308)
        await until(lambda: broker._store is not None and broker._store.confirmed("g", "demo", 0) == 308)
        assert (await peer.offsets(all_groups=True)).groups[0].confirmed_offset == 308


async def test_a_held_fetch_ends_with_the_first_message_that_passes_its_filter() -> None:
    async with running() as broker, connected(broker) as peer, connected(broker) as producer:
        await peer.register(filter_cond_str=("abc",))
        waiting = asyncio.create_task(peer.get(max_wait_ms=LONG_MS))
        await until(lambda: broker.health()["held_fetches"] == 1)
        await producer.send(b"other", msg_type="def")
        await producer.send(b"elsewhere", partition_id=1, msg_type="abc")
        assert not waiting.done()
        await producer.send(b"mine", msg_type="abc")
        head, messages = await waiting
        assert (head.err_code, [message.payload for message in messages]) == (Code.SUCCESS, [b"mine"])
        assert broker.health()["held_fetches"] == 0


async def test_a_wait_that_ends_without_a_message_is_answered_404() -> None:
    async with running() as broker, connected(broker) as peer:
        await peer.register()
        head, _ = await peer.get(max_wait_ms=5)
        assert head.err_code == Code.NOT_FOUND
        offset, _ = await peer.read_range(0, max_wait_ms=5)
        assert (offset.err_code, offset.min_offset, offset.max_offset) == (Code.NOT_FOUND, 0, 0)


async def test_a_held_fetch_does_not_act_for_a_registration_that_came_later() -> None:
    async with running() as broker, connected(broker) as peer, connected(broker) as producer:
        await peer.register()
        waiting = asyncio.create_task(peer.get(max_wait_ms=LONG_MS))
        await until(lambda: broker.health()["held_fetches"] == 1)
        await peer.register()
        await producer.send()
        head, _ = await waiting
        assert head.err_code == Code.HB_NO_NODE
        assert len((await peer.get())[1]) == 1


async def test_a_held_fetch_of_a_peer_that_went_away_books_nothing() -> None:
    async with running() as broker, connected(broker) as producer:
        async with connected(broker) as peer:
            await peer.register()
            waiting = asyncio.create_task(peer.get(max_wait_ms=LONG_MS))
            await until(lambda: broker.health()["held_fetches"] == 1)
        await asyncio.gather(waiting, return_exceptions=True)
        await until(lambda: broker.health()["held_fetches"] == 0)
        await producer.send()
        async with connected(broker) as peer:
            assert len((await peer.get(last_pack_consumed=True))[1]) == 1, "still registered, and nothing was skipped"


async def test_a_partition_has_one_holder_until_it_leaves() -> None:
    async with running() as broker, connected(broker) as peer, connected(broker) as other:
        other.client_id = "g_127.0.0.1-2-2-2-Pull-1.0"
        await peer.send_each([item(b"%d" % n) for n in range(4)])
        await peer.register()
        await peer.get(max_messages=2)
        refused = await other.register()
        assert (refused.err_code, refused.curr_offset) == (Code.PARTITION_OCCUPIED, -1)
        assert (await other.get())[0].err_code == Code.DUPLICATE_PARTITION
        assert (await other.commit()).err_code == Code.UNAUTHORIZED
        assert (await other.register(op_type=32)).err_code == Code.DUPLICATE_PARTITION
        beat = await other.heartbeat("1:127.0.0.1:8123#demo:0", "1:127.0.0.1: #demo:1")
        assert beat.failure_info == ("412:1:127.0.0.1:8123#demo:0", "411:1:127.0.0.1:8123#demo:1")
        assert (await peer.register(op_type=32, read_status=0)).err_code == Code.SUCCESS
        assert (await other.register()).curr_offset == 56, "the farewell confirmed what was fetched"
        await other.get()
        assert (await other.register(op_type=32, read_status=1)).err_code == Code.SUCCESS
        assert (await peer.register()).curr_offset == 56, "this farewell did not"


async def test_the_partition_of_one_of_ours_is_free_soon_after_its_connection_broke() -> None:
    async with running(lost_connection_grace_s=0.05) as broker, connected(broker) as other:
        other.client_id = "g_127.0.0.1-2-2-2-Pull-1.0"
        async with connected(broker) as peer:
            await peer.send_each([item(b"%d" % n) for n in range(4)])
            await peer.register()
            await peer.get()
            assert (await other.register()).err_code == Code.PARTITION_OCCUPIED
        await until(lambda: broker.health()["consumers"] == 0)
        assert (await other.register()).curr_offset == 0, "what was not confirmed comes again"


async def test_another_client_has_more_time_to_come_back_and_keeps_its_partition_when_it_does() -> None:
    async with (
        running(lost_connection_grace_s=0.0, foreign_connection_grace_s=3600.0) as broker,
        connected(broker) as other,
    ):
        other.client_id = "g_127.0.0.1-2-2-2-Pull-1.0"
        async with connected(broker, capabilities=Capability(0)) as peer:
            await peer.register()
        await until(lambda: broker.health()["connections"] == 1)
        assert (await other.register()).err_code == Code.PARTITION_OCCUPIED
        assert broker._state is not None
        (hold,) = broker._state.registry.registrations()
        assert hold.connection is None
        async with connected(broker, capabilities=Capability(0)) as again:
            assert (await again.heartbeat("1:127.0.0.1:8123#demo:0")).has_part_failure is False
            assert hold.connection is not None


async def test_another_client_that_does_not_come_back_loses_its_partition_before_its_lease_ends() -> None:
    async with running(foreign_connection_grace_s=0.05, lease_timeout_s=3600.0) as broker, connected(broker) as other:
        other.client_id = "g_127.0.0.1-2-2-2-Pull-1.0"
        async with connected(broker, capabilities=Capability(0)) as peer:
            await peer.register()
        await until(lambda: broker.health()["consumers"] == 0)
        assert (await other.register()).err_code == Code.SUCCESS


async def test_a_heartbeat_in_the_wrong_form_is_answered_with_what_is_wrong() -> None:
    async with running() as broker, connected(broker) as peer:
        answer = await peer.heartbeat("nonsense")
        assert (answer.success, answer.err_code) == (False, Code.BAD_REQUEST)
        assert "nonsense" in answer.err_msg


@pytest.mark.parametrize(("client_id", "group"), [("a@b", "g"), ("a#b", "g"), ("a", "x@y"), ("a", "x#y")])
async def test_names_that_break_the_strings_they_go_into_are_refused(client_id: str, group: str) -> None:
    async with running() as broker, connected(broker) as peer:
        peer.client_id, peer.group = client_id, group
        answer = await peer.register()
        assert (answer.success, answer.err_code) == (False, Code.BAD_REQUEST)
        assert "has @ or # in it" in answer.err_msg
        assert broker.health()["consumers"] == 0


@pytest.mark.parametrize("bad", ["g\n2026-01-31 forged", "g\x1b[2J", "g\x9b2J", "g\u202eh", "g\u2028h"])
async def test_names_that_a_terminal_obeys_are_refused_in_every_request(bad: str) -> None:
    async with running() as broker, connected(broker) as peer:
        for field in ("client_id", "group", "topic"):
            asking = Peer(peer.connection)
            setattr(asking, field, bad)
            answers: list[Any] = [await asking.register(), (await asking.get())[0], await asking.commit()]
            if field != "group":
                answers.append(await asking.send())
            if field != "topic":
                answers.append(await asking.heartbeat())
            for answer in answers:
                assert (answer.success, answer.err_code) == (False, Code.BAD_REQUEST), (field, answer)
                assert answer.err_msg.isprintable()
        assert broker.health()["consumers"] == 0


async def test_a_range_is_read_without_touching_a_group() -> None:
    async with running() as broker, connected(broker) as peer:
        await peer.send_each([item(b"%d" % n) for n in range(10)])
        head, messages = await peer.read_range(56, end_offset=140)
        assert [message.payload for message in messages] == [b"2", b"3", b"4"]
        assert (head.next_offset, head.min_offset, head.max_offset) == (140, 0, 280)
        head, messages = await peer.read_range(0, max_messages=2)
        assert (len(messages), head.next_offset) == (2, 56)
        head, messages = await peer.read_range(280, end_offset=280)
        assert (head.err_code, messages) == (Code.SUCCESS, [])
        assert (await peer.read_range(-1))[0].err_code == Code.BAD_REQUEST
        assert (await peer.read_range(0, partition_id=9))[0].err_code == Code.FORBIDDEN
        waiting = asyncio.create_task(peer.read_range(280, max_wait_ms=LONG_MS))
        await until(lambda: broker.health()["held_fetches"] == 1)
        await peer.send(b"news")
        assert [message.payload for message in (await waiting)[1]] == [b"news"]
        assert (await peer.offsets(all_groups=True)).groups == ()


async def test_offsets_of_partitions_asked_for_and_of_all() -> None:
    async with running() as broker, connected(broker) as peer:
        await peer.send_each([item(), item(), item(partition_id=2)])
        everything = await peer.offsets()
        assert [(p.partition_id, p.min_offset, p.max_offset) for p in everything.partitions] == [
            (0, 0, 56),
            (1, 0, 0),
            (2, 0, 28),
        ]
        some = await peer.offsets(("demo", 2), ("demo", 2), ("demo", 7), ("nosuch", 0), group_names=("g",))
        assert [(p.partition_id, p.max_offset) for p in some.partitions] == [(2, 28)]
        await peer.register(2, read_status=1)
        named = await peer.offsets(group_names=("g",))
        assert [(g.partition_id, g.confirmed_offset, g.consumer_id) for g in named.groups] == [(2, 28, peer.client_id)]
        assert (await peer.offsets(group_names=("other",))).groups == ()


async def test_a_start_from_the_end_is_remembered_before_anything_is_confirmed() -> None:
    broker = service()
    disk = broker._disk
    await broker.start()
    async with connected(broker) as peer:
        await peer.send()
        assert (await peer.register(read_status=1)).curr_offset == 28
        await peer.send()
    await broker.close()
    async with running(disk) as again, connected(again) as peer:  # type: ignore[arg-type]
        assert (await peer.register(read_status=1)).curr_offset == 28, "not 56: the message in between is not skipped"


async def test_what_a_java_client_may_ask_is_answered_with_its_code() -> None:
    async with running() as broker, connected(broker, capabilities=Capability(0)) as peer, connected(broker) as other:
        other.client_id = "g_127.0.0.1-2-2-2-Pull-1.0"
        await peer.send_each([item()] * 4)
        assert (await peer.commit()).err_code == Code.UNAUTHORIZED
        assert (await peer.get())[0].err_code == Code.HB_NO_NODE
        assert (await peer.register(op_type=32)).err_code == Code.HB_NO_NODE
        assert (await peer.register(curr_offset=10**9)).curr_offset == 112, "clamped to the end"
        without_a_fetch = await peer.commit()
        assert (without_a_fetch.err_code, without_a_fetch.curr_offset, without_a_fetch.max_offset) == (200, 112, 112)
        assert (await peer.get())[0].err_code == Code.NOT_FOUND
        assert (await peer.register(curr_offset=30)).curr_offset == 28, "a whole message"
        assert (await peer.register(curr_offset=0, read_status=2)).curr_offset == 112, "readStatus 2 wins"
        again = await peer.register(curr_offset=0)
        assert (again.curr_offset, again.max_offset) == (0, 112)
        assert len((await peer.get())[1]) == 4
        assert (await peer.register()).curr_offset == 0
        assert len((await peer.get())[1]) == 4, "what was not confirmed comes again after a registration"
        for answer in (await other.get(), await other.get(last_pack_consumed=True)):
            assert answer[0].err_code == Code.DUPLICATE_PARTITION
        assert (await other.commit()).err_code == Code.UNAUTHORIZED
        assert (await other.register()).err_code == Code.PARTITION_OCCUPIED
        assert (await other.register(op_type=32)).err_code == Code.DUPLICATE_PARTITION
        failures = (await other.heartbeat("1:h:1#demo:0", "1:h:1#demo:2")).failure_info
        assert failures == ("412:1:h:1#demo:0", "411:1:h:1#demo:2")
        assert (await peer.register(9)).err_code == Code.INTERNAL_SERVER_ERROR
        peer.topic = "nosuch"
        assert (await peer.register()).err_code == Code.FORBIDDEN
