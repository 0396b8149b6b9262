"""Producing with packs, 100 bytes: against Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.harness.decisions import Row, at_least
from bench.measures.common import cores, failures, kafka_producer, notes, our_producer, rate, runs

if TYPE_CHECKING:
    from bench.harness.bench import Bench

SIZE_BYTES = 100


class Packs100:
    """`submit_many` and `submit`; the row that counts takes the better one, of ours as of the peer's."""

    name = "packs-100"
    title = "produce with packs, 100 bytes"
    limit_s = 400.0

    async def run(self, bench: Bench) -> list[Row]:
        """The row that counts, and one per way."""
        ours = await bench.ours()
        found = await bench.take({
            "submit_many": our_producer(bench, ours, "many", SIZE_BYTES),
            "submit": our_producer(bench, ours, "one", SIZE_BYTES),
            "confluent produce_batch": await kafka_producer(bench, "many", SIZE_BYTES),
            "confluent produce": await kafka_producer(bench, "one", SIZE_BYTES),
        })  # fmt: skip
        many, one = rate(found["submit_many"]), rate(found["submit"])
        batch, single = rate(found["confluent produce_batch"]), rate(found["confluent produce"])
        best, kafka = max(many or 0.0, one or 0.0), max(batch or 0.0, single or 0.0)
        return [
            Row(self.name, "100 B, the better way : confluent-kafka, the better way", "msg/s", best, kafka,
                at_least(1.0), notes(cores(found), failures(found)), runs(found)),
            Row(self.name, "100 B, submit_many : confluent-kafka produce_batch", "msg/s", many, batch),
            Row(self.name, "100 B, submit : confluent-kafka produce", "msg/s", one, single),
        ]  # fmt: skip


MEASURE = Packs100()
