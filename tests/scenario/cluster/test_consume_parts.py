"""`pytubemq consume` without a group where a part of the topic cannot be read that way."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import httpx
import pytest

from pytubemq import connect
from pytubemq.broker.upkeep import health
from pytubemq.errors import ExitCode
from pytubemq.model.ids import Partition
from pytubemq.server.cluster import EmbeddedCluster
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.protocol.extensions import OURS, Capability

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import CommandLine

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]

QUICK = ("--timeout", "0.5")


async def two_brokers(stack: AsyncExitStack, *, original: bool = False) -> tuple[MockBroker, MockBroker]:
    """A Master that names two Brokers of the topic; the message is at the second, the first may be the original's."""
    one = MockBroker(topics={"t": 2}, broker_id=1, capabilities=Capability(0) if original else OURS)
    two = MockBroker(topics={"t": 1}, broker_id=2)
    two.peers.append(one)
    await stack.enter_async_context(one)
    await stack.enter_async_context(two)
    two.store("t", b"here")
    return one, two


async def test_a_broker_of_the_original_is_named_with_what_to_type(tube: CommandLine) -> None:
    async with AsyncExitStack() as stack:
        _, two = await two_brokers(stack, original=True)
        found = await asyncio.to_thread(tube, "consume", "t", "--master", two.masters, *QUICK)
        assert (found.returncode, found.stdout) == (ExitCode.BAD_CONFIG, b"here\n"), "the rest is read"
        said = found.stderr.decode()
        assert "the Broker 1 at" in said
        assert "it is not a pytubemq Broker" in said
        assert "--group NAME" in said
        assert "tube." not in said
        enough = await asyncio.to_thread(tube, "consume", "t", "-n", "1", "--tail", "--from", "earliest", "--master",
                                         two.masters, *QUICK)  # fmt: skip
        assert (enough.returncode, enough.stdout) == (ExitCode.DONE, b"here\n")


async def test_a_broker_that_is_away_is_passed_over_and_said(tube: CommandLine) -> None:
    async with AsyncExitStack() as stack:
        one, two = await two_brokers(stack)
        await one.stop_broker()
        found = await asyncio.to_thread(tube, "consume", "t", "--master", two.masters, *QUICK)
        assert (found.returncode, found.stdout) == (ExitCode.UNREACHABLE, b"here\n")
        assert found.stderr.count(b"is away") == 1
        assert b"Broker 1" in found.stderr


async def test_it_is_said_before_long_that_a_broker_is_waited_for_and_all_are_waited_for_together(
    tube: CommandLine,
) -> None:
    async with AsyncExitStack() as stack:
        one, two = await two_brokers(stack)
        await one.stop_broker()
        await two.stop_broker()
        found = await asyncio.to_thread(tube, "consume", "t", "--master", two.masters, "--timeout", "4")
        assert (found.returncode, found.stdout) == (ExitCode.UNREACHABLE, b"")
        said = found.stderr.decode().splitlines()
        assert [line.split(" at ")[0] for line in said[:2]] == ["waiting for Broker 1", "waiting for Broker 2"]
        assert "Broker 1, which has partitions" in said[2]


async def test_a_member_of_a_group_ends_with_who_was_not_asked(tube: CommandLine) -> None:
    async with AsyncExitStack() as stack:
        one, two = await two_brokers(stack)
        await one.stop_broker()
        command = ("consume", "t", "--group", "g", "--idle", "0.5", "--master", two.masters)
        found = await asyncio.to_thread(tube, *command)
        assert (found.returncode, found.stdout) == (ExitCode.DONE, b"here\n")
        assert "not read: Broker 1 at" in found.stderr.decode()
        await two.stop_broker()
        found = await asyncio.to_thread(tube, *command)
        assert (found.returncode, found.stdout) == (ExitCode.UNREACHABLE, b"")
        assert "no Broker of topic 't' answers: Broker 1 at" in found.stderr.decode()
        assert "Broker 2 at" in found.stderr.decode()


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("packs", [False, True])
async def test_what_is_lost_is_passed_over_and_said_and_the_rest_is_printed(
    tube: CommandLine, monkeypatch: pytest.MonkeyPatch, check: bool, packs: bool
) -> None:
    monkeypatch.setattr(health, "LOOK_S", 0.0)
    settings = {"broker.check_on_read": check, "broker.check_packs_on_read": check}
    if packs and check:
        settings = {}  # so it is by default
    async with EmbeddedCluster(settings=settings) as cluster:
        await cluster.create_topic("t", partitions=2)
        bodies = [[b"%d-%d-%s" % (part, number, b"x" * 50) for number in range(20)] for part in range(2)]
        async with connect(cluster.master) as client, client.producer("t") as producer:
            for part in range(2):
                for at in (0, 10):
                    lot = bodies[part][at : at + 10]
                    if packs:
                        await producer.send_many(lot, partition=Partition(1, "t", part))
                    else:
                        for message in lot:
                            await producer.send(message, partition=Partition(1, "t", part))
        await cluster.stop_broker(1)
        (log,) = (cluster.data_dir / "broker-1/logs/t/0").glob("*.log")
        data = log.read_bytes()
        at = data.index(b"0-3-x")
        log.write_bytes(data[:at] + b"0-3-X" + data[at + 5 :])
        await cluster.restart_broker(1)
        found = await asyncio.to_thread(tube, "consume", "t", "--master", cluster.master)
        printed = found.stdout.split()
        lost = [body for body in bodies[0] if body not in printed]
        assert bodies[0][3] in lost
        assert lost == bodies[0][3:4] or (packs and set(lost) <= set(bodies[0][:10])), "the rest of the partition"
        assert printed == [body for body in (*bodies[0], *bodies[1]) if body not in lost], "and the others"
        assert found.returncode == ExitCode.FAILED
        said = found.stderr.decode()
        assert f"skipped: 1:t:0 from offset {28 * bodies[0].index(lost[0])} to before" in said
        assert f"({len(lost)} messages) cannot be read" in said
        assert "pytubemq store verify" in said
        told = await asked(cluster)
        assert (f"messages lost to damage: {len(lost)}" in told) is check, "the Broker noticed, too"


async def asked(cluster: EmbeddedCluster) -> str:
    async with httpx.AsyncClient() as http:
        return (await http.get(cluster.broker_pages[1].replace("broker.htm", "health"))).text


async def test_a_partition_that_cannot_be_served_holds_nothing_back_and_is_named(
    tube: CommandLine, tmp_path: Path
) -> None:
    async with EmbeddedCluster(data_dir=tmp_path / "data") as cluster:
        await cluster.create_topic("orders", partitions=3)
        async with connect(cluster.master) as client, client.producer("orders") as producer:
            for number in range(3):
                await producer.send(b"of %d" % number, partition=number)
        await cluster.stop_broker()
        shutil.rmtree(next((tmp_path / "data").glob("**/logs/orders/0")))
        await cluster.restart_broker()
        found = await asyncio.to_thread(tube, "consume", "orders", "--master", cluster.master, *QUICK)
        assert sorted(found.stdout.splitlines()) == [b"of 1", b"of 2"]
        assert found.returncode == ExitCode.REFUSED
        said = found.stderr.decode()
        assert said.startswith("waiting for 1:orders:0, up to 0.5 s (--timeout): ")
        assert "error TUBE-500  1:orders:0 was read up to offset 0 only: partition 0 of orders cannot be read" in said
        assert said.splitlines()[-1].startswith("  try   all else was printed; ")
