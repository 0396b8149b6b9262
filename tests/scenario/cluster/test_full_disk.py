"""A Broker's disk runs full: sends are refused, nothing acknowledged is lost, service returns with space."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pytubemq
from pytubemq.errors import TubeError
from pytubemq.model.limits import MIB
from pytubemq.server.cluster import EmbeddedCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

pytestmark = [pytest.mark.scenario, pytest.mark.anyio]

TOPIC = "full"
BODY_BYTES = 64 * 1024
DISK_MIB = 48
MOST_SENDS = 2 * DISK_MIB * MIB // BODY_BYTES


@contextlib.contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    """A file system of DISK_MIB that is really full when it is full; needs root."""
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(path)], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def can_mount(path: Path) -> bool:
    """Whether this process may mount (root in some containers may not)."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    try:
        with small_disk(path / "probe"):
            return True
    except (subprocess.CalledProcessError, OSError):
        return False


@contextlib.asynccontextmanager
async def full_cluster(tmp_path: Path) -> AsyncIterator[tuple[EmbeddedCluster, Callable[[], None], Callable[[], None]]]:
    """A cluster on a small disk, and how to fill that disk up and make room on it again."""
    settings = {"broker.reserve_bytes": 8 * MIB, "broker.journal_segment_bytes": 4 * MIB}
    if can_mount(tmp_path):
        with small_disk(tmp_path / "disk") as disk:
            ballast = disk / "ballast"

            def fill() -> None:
                ballast.write_bytes(bytes(DISK_MIB // 3 * MIB))

            def free() -> None:
                ballast.unlink()

            async with EmbeddedCluster(data_dir=disk / "data", broker_in_child=True, settings=settings) as cluster:
                yield cluster, fill, free
    else:
        from pytubemq.testing.disk import FaultyDisk

        faulty = FaultyDisk(capacity_bytes=DISK_MIB * MIB)
        ballast = Path("/ballast")

        def fill() -> None:
            faulty.put(ballast, bytes(DISK_MIB // 3 * MIB))

        def free() -> None:
            faulty.unlink(ballast)

        async with EmbeddedCluster(data_dir=tmp_path / "data", disk=faulty, settings=settings) as cluster:
            yield cluster, fill, free


async def send_until_refused(tube: pytubemq.Tube, acknowledged: list[bytes]) -> TubeError:
    """Send until the Broker refuses for good; returns its refusal."""
    async with tube.producer(TOPIC, delivery_timeout_s=3.0) as producer:
        for number in range(MOST_SENDS):
            body = b"%d " % (len(acknowledged) + number) + os.urandom(BODY_BYTES)
            try:
                await producer.send(body)
            except TubeError as error:
                return error
            acknowledged.append(body)
    pytest.fail(f"{MOST_SENDS} messages fit onto a disk of {DISK_MIB} MiB")


async def read_all(tube: pytubemq.Tube) -> list[bytes]:
    (partition,) = await tube.partitions(TOPIC)
    async with tube.reader(partition, end=pytubemq.Start.LATEST) as reader:
        return [message.body async for batch in reader.batches() for message in batch]


async def test_a_full_disk_refuses_sends_and_loses_nothing(tmp_path: Path) -> None:
    async with full_cluster(tmp_path) as (cluster, fill, free):
        await cluster.create_topic(TOPIC, partitions=1)
        fill()
        async with pytubemq.connect(cluster.master) as tube:
            acknowledged: list[bytes] = []
            refusal = await send_until_refused(tube, acknowledged)
            assert "full" in str(refusal).lower() or "space" in str(refusal).lower(), refusal
            assert acknowledged, "nothing was ever accepted"
            # reading goes on while there is no room
            assert set(acknowledged) <= set(await read_all(tube))
            free()
            async with tube.producer(TOPIC) as producer:
                await producer.send(b"there is room again")
            acknowledged.append(b"there is room again")
            await cluster.restart_broker()
        # and what was acknowledged is there after a restart, in order
        async with pytubemq.connect(cluster.master) as tube:
            found = [body for body in await read_all(tube) if body in set(acknowledged)]
            assert list(dict.fromkeys(found)) == acknowledged
