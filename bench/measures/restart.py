"""A Broker killed with much stored: from its start until a reader has the first batch, beside Kafka."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from bench.harness.decisions import Row, at_most, median
from bench.harness.processes import RunError, ours, started
from bench.measures.common import KIB

if TYPE_CHECKING:
    from bench.harness.bench import Bench
    from bench.harness.cluster import Ours
    from bench.peers.kafka import Kafka

STORED_BYTES, QUICK_BYTES = 10 * 10**9, 10**9
KAFKA_BYTES = 10**9
"""Kafka gets no more in a full run either: its time grows with what it has to look through."""
MESSAGE_BYTES = 10 * KIB
SINGLES, SINGLE_BYTES = 1_000_000, 100
"""Small messages, each in a request of its own: a start has most to replay for each byte."""
SPREAD, SPREAD_PARTITIONS = 126_000, 3_000
"""Few of them in each of many partitions: a start has most to do for each message."""
LIMIT_S = 3.0
TOPIC = "stored"
FETCH_TIMEOUT_S = 120.0


class Restart:
    """SIGKILL, then a start on the same data while a reader tries to read; all that is stored was acknowledged.

    Small messages are killed over before a checkpoint covers the last of them, so the newest are replayed.
    """

    name = "restart"
    title = "restart after kill -9"
    limit_s = 1_800.0

    async def run(self, bench: Bench) -> list[Row]:
        """One row for much that is stored, one for many small messages, one for these in many partitions."""
        stored = QUICK_BYTES if bench.options.quick else STORED_BYTES
        fill: dict[str, Any] = {"topics": [TOPIC], "size_bytes": MESSAGE_BYTES}
        async with bench.own() as cluster:
            bench.progress(f"storing {stored / 1e9:g} GB")
            await cluster.create([TOPIC])
            await bench.our_client(
                "ours_fill", cluster, fill | {"messages": stored // MESSAGE_BYTES, "measure_s": 900.0}
            )
            taken = [await self._ours(bench, cluster) for _ in range(bench.options.runs)]
        small = await self._singles(bench, SINGLES)
        spread = await self._singles(bench, SPREAD, partitions=SPREAD_PARTITIONS)
        async with bench.own_kafka() as kafka:
            bench.progress(f"storing {KAFKA_BYTES / 1e9:g} GB in Kafka")
            await kafka.create([TOPIC])
            await kafka.client("confluent_fill", fill | {"messages": KAFKA_BYTES // MESSAGE_BYTES, "measure_s": 300.0})
            peer = await self._kafka(bench, kafka)
        what = f"{stored / 1e9:g} GB stored, start to first fetch : Kafka with {KAFKA_BYTES / 1e9:g} GB"
        found = {"ours": taken, "kafka": [peer]}
        singles = f"{SINGLES:,} single messages of {SINGLE_BYTES} B, start to first fetch"
        wide = f"{SPREAD:,} of them in {SPREAD_PARTITIONS:,} partitions, start to first fetch"
        return [
            Row(self.name, what, "s", median(taken), peer, at_most(LIMIT_S), "", found),
            Row(self.name, singles, "s", median(small), None, at_most(LIMIT_S), "", {"ours": small}),
            Row(self.name, wide, "s", median(spread), None, at_most(LIMIT_S), "", {"ours": spread}),
        ]

    async def _singles(self, bench: Bench, messages: int, *, partitions: int = 10) -> list[float]:
        """Each time in a store of its own: a start leaves nothing to replay for the next one."""
        taken = []
        fill = {"topics": [TOPIC], "size_bytes": SINGLE_BYTES, "messages": messages, "measure_s": 900.0, "single": True}
        for _ in range(bench.options.runs):
            async with bench.own() as cluster:
                bench.progress(f"storing {messages:,} single messages")
                await cluster.create([TOPIC], partitions=partitions)
                await bench.our_client("ours_fill", cluster, fill)
                taken.append(await self._ours(bench, cluster))
        return taken

    async def _ours(self, bench: Bench, cluster: Ours) -> float:
        bench.progress("kill -9 and start")
        spec = {"master": cluster.master, "topic": TOPIC, "timeout_s": FETCH_TIMEOUT_S}
        async with started([*ours("ours_first_fetch"), json.dumps(spec)]) as reader:
            assert reader.stdout is not None
            assert reader.stdin is not None
            async with asyncio.timeout(2 * FETCH_TIMEOUT_S):
                if (await reader.stdout.readline()).strip() != b"ready":
                    raise RunError("the reader did not come up")
                await cluster.kill_broker()
                reader.stdin.write(b"go\n")
                begun_s = await cluster.start_broker(timeout_s=FETCH_TIMEOUT_S)
                line = await reader.stdout.readline()
        if not line:
            raise RunError(f"nothing could be read after the restart; the log is {cluster.broker.log_path}")
        return float(json.loads(line)["at_s"]) - begun_s

    async def _kafka(self, bench: Bench, kafka: Kafka) -> float:
        bench.progress("Kafka: kill -9 and start")
        await kafka.kill()
        begun_s = await kafka.start()
        found = await kafka.client("confluent_first_fetch", {"topic": TOPIC, "timeout_s": FETCH_TIMEOUT_S})
        return float(found["at_s"]) - begun_s


MEASURE = Restart()
