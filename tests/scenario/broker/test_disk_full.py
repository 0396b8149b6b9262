"""A real Broker on a file system that really has no space left: it says so, serves what it has, and returns by itself.

The file system is a small one in memory, mounted for the test; where this user may not mount, one in a namespace of the
test's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import re
import subprocess
import urllib.request
from typing import TYPE_CHECKING

import pytest

import pytubemq
from pytubemq.cli.api import Api
from pytubemq.errors import Code
from pytubemq.model.ids import Address
from pytubemq.model.limits import MIB
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.net.client.connection import RpcConnection
from pytubemq.server.cluster import EmbeddedCluster
from pytubemq.wire.protocol.extensions import OURS
from tests.scenario.broker.support import Peer, item
from tests.support.waiting import until, until_answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.scenario, pytest.mark.timeout(300)]

SPACE_BYTES = 64 * MIB
OTHERS_BYTES = 24 * MIB
TOPIC = "full"
IN_MEMORY = "promised"
SETTINGS = {"broker.reserve_bytes": 8 * MIB, "broker.segment_bytes": 4 * MIB, "broker.journal_segment_bytes": 4 * MIB}
BODY = bytes(range(256)) * 512
"""128 KiB: a few hundred fill the disk."""
MOST_PROMISED = 1_000
"""The messages that are promised from memory until the Broker notices that they cannot be written."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory that holds `SPACE_BYTES` and no more."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SPACE_BYTES}", "tmpfs", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        _own_namespace()
        subprocess.run(mount, check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def _own_namespace() -> None:
    """Let this process mount for itself and its children."""
    user, group = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    new_user, new_mounts = 0x10000000, 0x00020000
    if libc.unshare(new_user | new_mounts):
        raise OSError(ctypes.get_errno(), "nothing can be mounted here: run this as root, or allow user namespaces")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


@contextlib.asynccontextmanager
async def connected(cluster: EmbeddedCluster) -> AsyncIterator[Peer]:
    host, _, port = cluster.brokers[1].rpartition(":")
    connection = await RpcConnection.connect(Address(host, int(port)), capabilities=OURS)
    try:
        yield Peer(connection, topic=TOPIC)
    finally:
        await connection.close()


class Filler:
    """Another program that fills the same disk."""

    def __init__(self, place: Path) -> None:
        self._path = place / "filler"

    def take(self, size_bytes: int) -> None:
        """Take so much space, or all there is."""
        with self._path.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            for _ in range(0, size_bytes, 4096):
                file.write(bytes(4096))

    def free(self) -> None:
        """Give it back."""
        self._path.unlink()


async def all_bodies(tube: pytubemq.Tube) -> list[bytes]:
    [partition] = await tube.partitions(TOPIC)
    async with tube.reader(partition, end=pytubemq.Start.LATEST) as reader:
        return [message.body async for batch in reader.batches() for message in batch]


async def fill_and_free(place: Path) -> None:
    filler = Filler(place)
    filler.take(OTHERS_BYTES)
    acknowledged: dict[int, bytes] = {}

    async def send(peer: Peer, number: int) -> int:
        """Send one message; the code of the answer."""
        body = b"%d " % number + BODY
        answer = await peer.send(body)
        if answer.err_code == Code.SUCCESS:
            assert answer.append_offset is not None
            acknowledged[answer.append_offset // OFFSET_UNIT] = body
        else:
            refusals.append((answer.err_code, answer.err_msg))
        return answer.err_code

    refusals: list[tuple[int, str]] = []
    async with EmbeddedCluster(data_dir=place, broker_in_child=True, settings=SETTINGS) as cluster:
        await cluster.create_topic(TOPIC, partitions=1)
        async with pytubemq.connect(cluster.master) as tube:
            async with connected(cluster) as peer:
                # The reserve is reached: what comes more is refused, and what was accepted still fits into its log.
                number = 0
                while await send(peer, number) == Code.SUCCESS:
                    number += 1
                assert number > 50
                assert await all_bodies(tube) == list(acknowledged.values())
                # Not a byte is free any more, and a batch is refused as a whole.
                filler.take(SPACE_BYTES)
                refused = await peer.send_many([item(BODY), item(BODY)])
                assert {refused.err_code, *refused.err_codes} == {Code.SERVER_RECEIVE_OVERFLOW}
                for number in range(1000, 1020):
                    assert await send(peer, number) == Code.SERVER_RECEIVE_OVERFLOW
                assert {code for code, _ in refusals} == {Code.SERVER_RECEIVE_OVERFLOW}
                assert all("no space left" in text for _, text in refusals)
                assert await all_bodies(tube) == list(acknowledged.values()), "reading goes on"
                # A producer waits for its turn, and has it when there is space: nobody has to do anything.
                async with tube.producer(TOPIC) as producer:
                    waiting = asyncio.ensure_future(producer.send(b"waits " + BODY))
                    await until(lambda: producer.stats.retried or waiting.done())
                    assert not waiting.done()
                    filler.free()
                    receipt = await waiting
                assert receipt.offset is not None
                acknowledged[receipt.offset // OFFSET_UNIT] = b"waits " + BODY
            await cluster.kill_broker()
            await cluster.restart_broker()
            found = await all_bodies(tube)
    assert sorted(acknowledged) == list(range(len(found))), "offsets are dense, a refused message took none"
    assert found == [acknowledged[ordinal] for ordinal in range(len(found))], "nothing acknowledged is lost"


def test_a_full_disk_refuses_serves_and_returns_by_itself(small_disk: Path) -> None:
    asyncio.run(fill_and_free(small_disk))


async def fill_and_keep_less(place: Path) -> None:
    settings = {**SETTINGS, "broker.segment_bytes": 128 * MIB, "broker.retention_check_s": 0.2}
    async with EmbeddedCluster(data_dir=place, broker_in_child=True, settings=settings) as cluster:
        await cluster.create_topic(TOPIC, partitions=1)
        async with pytubemq.connect(cluster.master) as tube, connected(cluster) as peer:
            while (await peer.send(BODY)).err_code == Code.SUCCESS:
                pass
            [partition] = await tube.partitions(TOPIC)
            first, end = (await tube.offsets([partition]))[partition]
            assert first == 0
            assert end > 100 * OFFSET_UNIT
            logs = place / "broker-1" / "logs" / TOPIC / "0"
            await until(lambda: len(list(logs.glob("*.log"))) == 1, timeout_s=120)
            # A shorter age alone makes room: that file goes as soon as its newest message is too old.
            api = Api(cluster.http, timeout_s=60)
            await asyncio.to_thread(lambda: api.patch("topics", TOPIC, body={"retention": "1s"}))
            await until_answer(
                lambda: tube.offsets([partition]), lambda found: found[partition][0] >= end, timeout_s=120, every_s=0.1
            )
            async with tube.producer(TOPIC) as producer:
                receipts = [await producer.send(BODY) for _ in range(SPACE_BYTES // len(BODY))]
            assert receipts[0].offset == end, "a refused message takes no offset"


def test_a_shorter_age_makes_room_on_a_full_disk_by_itself(small_disk: Path) -> None:
    asyncio.run(fill_and_keep_less(small_disk))


def health(page: str) -> str:
    with urllib.request.urlopen(page.replace("/broker.htm", "/health"), timeout=60) as answer:
        return str(answer.read(), "utf-8")


async def fill_and_delete(place: Path, topic: str) -> None:
    async with EmbeddedCluster(data_dir=place, broker_in_child=True, settings=SETTINGS) as cluster:
        await cluster.create_topic(TOPIC, partitions=1)
        await cluster.create_topic(IN_MEMORY, partitions=1, durability="memory")
        api = Api(cluster.http, timeout_s=60)
        async with pytubemq.connect(cluster.master) as tube, connected(cluster) as peer:
            while (await peer.send(BODY)).err_code == Code.SUCCESS:
                pass
            # Promised from memory before anybody knows that it cannot be written; the next one is not.
            codes = [(await peer.send(BODY, topic=IN_MEMORY)).err_code]
            while codes[-1] == Code.SUCCESS and len(codes) < MOST_PROMISED:
                codes.append((await peer.send(BODY, topic=IN_MEMORY)).err_code)
            assert codes[-1] == Code.SERVER_RECEIVE_OVERFLOW
            promised = codes.count(Code.SUCCESS)
            said = re.search(
                r"(\d+) messages? that (was|were) promised from memory wait",
                await asyncio.to_thread(health, cluster.broker_pages[1]),
            )
            assert said is not None
            assert 0 < int(said[1]) <= promised, "a few of them may have found space"
            await asyncio.to_thread(api.delete, "topics", topic)
            logs = place / "broker-1" / "logs" / topic
            await until(lambda: not logs.exists(), timeout_s=60)
            if topic == TOPIC:  # which made room: what was promised is written, and more is taken
                async with tube.producer(IN_MEMORY) as producer:
                    receipt = await producer.send(b"more")
                assert receipt.offset == promised * OFFSET_UNIT
            else:
                await until(lambda: "promised from memory" not in health(cluster.broker_pages[1]), timeout_s=60)


@pytest.mark.parametrize("topic", [TOPIC, IN_MEMORY])
def test_a_topic_can_be_deleted_while_messages_that_were_promised_from_memory_wait(
    small_disk: Path, topic: str
) -> None:
    asyncio.run(fill_and_delete(small_disk, topic))
