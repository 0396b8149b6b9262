"""What may happen to a group while it reads and to a topic while it is written, in every column.

The invariant: nothing that has a receipt is lost, whatever happens; what comes again is counted.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from .bench import CellError, JavaReader, OurReader
from .cells import produced
from .ledger import Received
from .live import KilledMember, Live, until_shared, wait_for
from .system import PARTITIONS
from .webapi import WebApi, http_get

if TYPE_CHECKING:
    from .bench import Bench

MEMBER_MOVES_S = 30 + 14 + 1
"""The heartbeat time-out, and the heartbeat in which a Java survivor hears of it. On our servers; a Java Broker keeps
what a killed member held for a time-out of its own."""
SHARED_AGAIN_S = 3 * 14
"""Three heartbeats of a Java member: it is told to take again what the Broker lost, says that it lacks that, and is
told once more. By itself it would say so only after 78 s."""
SLOW_MS = 2_000
SLOW_BATCHES = 4
RULES_TIMEOUT_S = 120.0
GROWN = 6
FIRST_MESSAGE_S = 2.0
TRIES = 3


async def _pair(bench: Bench, topic: str, got: Received) -> tuple[JavaReader, OurReader]:
    """A group of one member of each kind, that has shared the topic."""
    name = bench.column.topic(topic)
    java = JavaReader(bench, f"{topic}_java", got)
    ours = OurReader(bench, f"{topic}_ours", got, group=topic)
    await asyncio.gather(java.start({name: []}, push=False, group=topic), ours.start({name: []}))
    await until_shared([java, ours], PARTITIONS)
    return java, ours


async def _finish(
    bench: Bench, live: Live, got: Received, *members: JavaReader | OurReader, **numbers: Any
) -> dict[str, Any]:
    """Stop sending, and look whether all has come."""
    await live.stop()
    count = await bench.check(got, {live.topic: []}, may_repeat=True)
    await asyncio.gather(*(member.close() for member in members))
    doubtful = bench.sent(live.topic).doubtful
    return {"messages": count, "repeats": got.repeats, "sent_again": len(doubtful), **numbers}


async def members_move(bench: Bench) -> dict[str, Any]:
    """Members join, leave and are killed."""
    got = Received()
    live = await Live(bench, "moving").start()
    java, ours = await _pair(bench, "moving", got)
    own_jvm = await bench.new_driver(f"{bench.column.prefix}-moving")
    killed_java = JavaReader(bench, "moving_killed", got, driver=own_jvm)
    killed_ours = KilledMember(bench, "moving_ours_killed", "moving", live.topic, got)
    await asyncio.gather(killed_java.start({live.topic: []}, push=False, group="moving"), killed_ours.start())
    joined_s = await until_shared([java, ours, killed_java, killed_ours], PARTITIONS)
    await live.go_on()
    theirs = await killed_java.partitions(), await killed_ours.partitions()
    await asyncio.gather(own_jvm.kill(), killed_ours.kill())
    moved_s = await asyncio.gather(*(_until_held([java, ours], partitions) for partitions in theirs))
    await until_shared([java, ours], PARTITIONS)
    await live.go_on()
    await ours.close()
    left_s = await until_shared([java], PARTITIONS)
    await live.go_on()
    all_ours = not (bench.column.java_master or bench.column.java_broker)
    if all_ours and max(moved_s) > MEMBER_MOVES_S:
        raise CellError(f"partitions of killed members moved after {moved_s} s (Java, ours)")
    numbers = {"joined_s": joined_s, "java_killed_s": moved_s[0], "ours_killed_s": moved_s[1], "left_s": left_s}
    return await _finish(bench, live, got, java, **numbers)


async def _until_held(members: list[JavaReader | OurReader], partitions: set[str]) -> float:
    async def held() -> bool:
        return partitions <= set().union(*[await member.partitions() for member in members])

    return await wait_for(f"{sorted(partitions)} are held by others", held)


async def topic_grows(bench: Bench) -> dict[str, Any]:
    """A topic gets more partitions while in use."""
    got, column = Received(), bench.column
    live = await Live(bench, "growing").start()
    java, ours = await _pair(bench, "growing", got)
    await live.go_on()
    await column.webapi.modify(
        "admin_modify_topic_info", topicName=live.topic, brokerId=column.broker_id, numPartitions=GROWN
    )
    grown_s = await until_shared([java, ours], GROWN)

    async def reached() -> bool:
        await live.go_on(20)
        return len(got.partitions) == GROWN

    await wait_for("messages in the new partitions", reached)
    return await _finish(bench, live, got, java, ours, grown_s=grown_s)


async def group_is_reset(bench: Bench) -> dict[str, Any]:
    """A group is reset to another offset."""
    await produced(bench)
    counts = []
    for reader in await _readers(bench, "reset"):
        counts.append(await _reset_and_read(bench, reader))
        await reader.close()
    return {"messages": sum(counts)}


async def _reset_and_read(bench: Bench, reader: JavaReader | OurReader) -> int:
    """From the middle on, everything comes again, in order and once."""
    topic = bench.column.topic("java")
    await bench.check(reader.got, {topic: []})
    starts = {
        partition: sorted(receipts)[len(receipts) // 2][0]
        for partition, receipts in bench.sent(topic).partitions.items()
    }
    reader.got = again = Received()
    await _set_offsets(bench, reader.group, starts)
    return await bench.check(again, {topic: []}, starts=starts)


async def _set_offsets(bench: Bench, group: str, starts: dict[str, int]) -> None:
    for key, offset in starts.items():
        _, topic, partition = key.split(":")
        found = await http_get(
            f"{bench.column.broker_web}/broker.htm",
            {
                "method": "admin_manual_set_current_offset",
                "topicName": topic,
                "groupName": group,
                "modifyUser": "interop",
                "partitionId": partition,
                "manualOffset": offset,
            },
        )
        if not found["result"]:
            raise CellError(f"admin_manual_set_current_offset: {found}")


async def rules_arrive(bench: Bench) -> dict[str, Any]:
    """Flow-control rules arrive."""
    await produced(bench)
    arrived_s = await asyncio.gather(*(_slow_down(bench, reader) for reader in await _readers(bench, "rules")))
    return {"messages": bench.sent(bench.column.topic("java")).count, "arrived_s": list(arrived_s)}


async def _slow_down(bench: Bench, reader: JavaReader | OurReader) -> float:
    """After a rule for its group a reader fetches from each partition only every other second."""
    topic = bench.column.topic("java")
    await bench.check(reader.got, {topic: []})
    rule = f'[{{"type":3,"rule":[{{"normFreqInMs":{SLOW_MS}}}]}}]'
    await bench.column.webapi.modify(
        "admin_set_group_flow_control_rule", groupName=reader.group, statusId=1, qryPriorityId=301, flowCtrlInfo=rule
    )
    starts = {partition: min(receipts)[0] for partition, receipts in bench.sent(topic).partitions.items()}

    async def slow() -> bool:
        reader.got = Received()
        await _set_offsets(bench, reader.group, starts)
        begun_s = time.monotonic()
        while len(reader.got.seen) < bench.sent(topic).count:
            await asyncio.sleep(0.1)  # between two looks at whether the rule's time has passed
            if time.monotonic() - begun_s > SLOW_BATCHES * SLOW_MS / 1000:
                return True
        return False

    # The official client looks at new rules when its minute is over, and hears of them every 13 s.
    took_s = await wait_for("its group's rule slows the reader down", slow, RULES_TIMEOUT_S)
    await reader.close()
    return took_s


async def _readers(bench: Bench, name: str) -> list[JavaReader | OurReader]:
    """A reader of each kind, each a group of its own, that begin to read the topic of Java's producers."""
    topic = bench.column.topic("java")
    java = JavaReader(bench, f"{name}_java", Received())
    ours = OurReader(bench, f"{name}_ours", Received())
    await asyncio.gather(java.start({topic: []}, push=False), ours.start({topic: []}))
    return [java, ours]


async def standby_answers(bench: Bench) -> dict[str, Any]:
    """A standby Master answers first."""
    await produced(bench)
    masters = f"{await bench.system.standby_address()},{bench.column.masters}"
    topic = bench.column.topic("standby")
    java = JavaReader(bench, "standby_java", Received(), masters=masters)
    ours = OurReader(bench, "standby_ours", Received(), masters=masters)
    await asyncio.gather(
        bench.java_send(topic, f"{topic}-java", 500, sync=True, masters=masters),
        bench.our_send(topic, f"{topic}-ours", 500, masters=masters),
        java.start({topic: []}, push=False),
        ours.start({topic: []}),
    )
    for reader in (java, ours):
        await bench.check(reader.got, {topic: []})
        await reader.close()
    return {"messages": bench.sent(topic).count}


async def broker_restarts(bench: Bench) -> dict[str, Any]:
    """The Broker restarts."""
    got = Received()
    live = await Live(bench, "broker").start()
    java, ours = await _pair(bench, "broker", got)
    await live.go_on()
    await bench.system.restart_broker(bench.column)
    back_s = await live.go_on()
    shared_s = await until_shared([java, ours], PARTITIONS)
    all_ours = not (bench.column.java_master or bench.column.java_broker)
    if all_ours and shared_s > SHARED_AGAIN_S:
        raise CellError(f"the members had all partitions again only after {shared_s} s")
    return await _finish(bench, live, got, java, ours, back_s=back_s, shared_s=shared_s)


async def master_restarts(bench: Bench) -> dict[str, Any]:
    """The Master restarts."""
    got = Received()
    live = await Live(bench, "master").start()
    java, ours = await _pair(bench, "master", got)
    await live.go_on()
    await bench.system.restart_master(bench.column)
    await live.go_on()
    registered_s = await wait_for("both members are registered again", lambda: _registered(bench, "master", 2))
    newcomer = OurReader(bench, "master_newcomer", Received())
    await newcomer.start({live.topic: []})
    await until_shared([newcomer], PARTITIONS)
    await until_shared([java, ours], PARTITIONS)
    await live.go_on()
    found = await _finish(bench, live, got, java, ours, registered_s=registered_s)
    await bench.check(newcomer.got, {live.topic: []}, may_repeat=True)
    await newcomer.close()
    return found


async def _registered(bench: Bench, group: str, members: int) -> bool:
    rows = await WebApi(bench.column.web).query("admin_query_sub_info", groupName=bench.column.group(group))
    return [row["consumerNum"] for row in rows] == [members]


async def first_message(bench: Bench) -> dict[str, Any]:
    """A new group's first message."""
    await produced(bench)
    topic, took_s = bench.column.topic("java"), []
    for number in range(1 if bench.column.java_master else TRIES):
        reader = await bench.java_read(f"first{number}", {topic: []})
        await bench.check(reader.got, {topic: []})
        await reader.close()
        took_s.append(reader.first_s)
    if not bench.column.java_master and min(took_s) >= FIRST_MESSAGE_S:
        raise CellError(f"the first message came {took_s} s after completeSubscribe")
    return {"messages": bench.sent(topic).count, "first_message_s": took_s}
