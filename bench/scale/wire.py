"""A Master process with thousands of members on loopback, each with a connection of its own.

    python -m bench.scale.wire [--members 2000] [--groups 200]

All join; heartbeats go on for --seconds; the Master is killed and started again; a fifth leaves at once. Prints one
JSON object a step: the time until every member was registered and every partition with exactly one, the processor time
of the Master, heartbeats answered a second, moves (partitions that members were sent), failures (calls that were
refused, or broke while the Master ran).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness.cluster import Ours
from bench.scale.wire_member import Crowd
from pytubemq.model.ids import Address
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable

TOPICS = 20
WITHIN_S = 300.0
RESTART_GRACE_S = 15.0


def cpu_s(pid: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Steps:
    """The steps of a run, at one Master and with one crowd."""

    def __init__(self, cluster: Ours, crowd: Crowd, show: Callable[[dict[str, object]], None]) -> None:
        self._cluster, self._crowd, self._show = cluster, crowd, show
        self._begin()

    def _begin(self) -> None:
        self._began_s = time.monotonic()
        self._cpu_s = self._master_cpu_s()
        self._crowd.reset_counts()

    def _master_cpu_s(self) -> float:
        pid = self._cluster.master_process.pid
        assert pid is not None, "the Master has ended"
        return cpu_s(pid)

    def show(self, step: str, *, from_start: bool = False) -> None:
        """Show the figures of a step; `from_start`: its Master is a new process."""
        crowd, taken_s = self._crowd, time.monotonic() - self._began_s
        used_s = self._master_cpu_s() - (0.0 if from_start else self._cpu_s)
        row: dict[str, object] = {"step": step, "members": len(crowd.members), "seconds": round(taken_s, 2)}
        row |= {"master_cpu_s": round(used_s, 2), "heartbeats_per_s": round(crowd.heartbeats / taken_s)}
        self._show({**row, "moves": crowd.moves, "events": crowd.events, "failures": crowd.failures})
        self._begin()


async def run(
    members: int,
    groups: int,
    show: Callable[[dict[str, object]], None],
    *,
    seconds: float,
    grace_s: float = RESTART_GRACE_S + 5,
) -> int:
    """Go through all steps; return the number of failures."""
    partitions = max(1, members // groups)
    with tempfile.TemporaryDirectory() as home:
        port = free_port("127.0.0.1")
        async with Ours(Path(home), {"master.listen": f"127.0.0.1:{port}"}) as cluster:
            topics = [f"topic{number}" for number in range(TOPICS)]
            await cluster.create_at_once(topics, partitions=partitions)
            crowd = Crowd(Address("127.0.0.1", port), topics, groups=groups, partitions=partitions)
            async with crowd, asyncio.timeout(WITHIN_S + seconds):
                steps = Steps(cluster, crowd, show)
                crowd.start(members)
                await crowd.served()
                steps.show("all join")
                await asyncio.sleep(seconds)
                steps.show("heartbeats")
                crowd.master_is_up.clear()
                await cluster.master_process.kill()
                await cluster.master_process.start()
                crowd.master_is_up.set()
                await crowd.registered()
                await crowd.served()
                steps.show("the Master was killed", from_start=True)
                await asyncio.sleep(grace_s)
                steps.show("after its grace period")
                leaving = random.Random(1).sample(sorted(crowd.members), members // 5)
                await crowd.leave(leaving)
                await crowd.served()
                steps.show("a fifth leaves")
                return crowd.all_failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=2_000)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0, help="of steady heartbeats")
    given = parser.parse_args()
    failures = asyncio.run(run(given.members, given.groups, show, seconds=given.seconds))
    return 1 if failures else 0


def show(row: dict[str, object]) -> None:
    """Print the figures of a step."""
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
