"""A thousand topics of ten partitions against one, the same total load, 1 KiB, in two patterns of the same kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.harness.decisions import Row, Target, at_least
from bench.measures.common import KIB, PACK_WINDOW, cores, failures, notes, rate, runs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bench.harness.bench import Bench

TOPICS, QUICK_TOPICS = 1_000, 200
OF_ONE_TOPIC = 0.85
CHUNK = 100
WARM_TIMES = 4
"""Longer than elsewhere: a Kafka client asks about each topic when it first sends to it."""
PATTERNS = {"many": f"{CHUNK} messages to each topic in turn", "one": "one message to each topic in turn"}


class ManyTopics:
    """One Broker of each kind has all the topics; the load goes to one of them, or to all in turn."""

    name = "many-topics"
    title = "a thousand topics"
    limit_s = 1_500.0

    async def run(self, bench: Bench) -> list[Row]:
        """Per pattern: ours with all topics against ours with one; and Kafka's own ratio."""
        count = QUICK_TOPICS if bench.options.quick else TOPICS
        names = [f"t{number}" for number in range(count)]
        async with bench.own() as ours, bench.own_kafka() as kafka:
            bench.progress(f"creating {count} topics twice")
            await ours.create(names, within_s=600)
            await kafka.create(names)
            # Kafka has made its files when it created the topics; ours come with a partition's first message.
            bench.progress("one message into every partition, and a load that does not count")
            await bench.our_client("ours_touch", ours, {"topics": names, "size_bytes": KIB})
            first = {"way": "many", "size_bytes": KIB, "window": PACK_WINDOW, "chunk": CHUNK}
            await bench.our_produce(ours, topics=names, warm_s=WARM_TIMES * bench.options.warm_s, **first)
            rows: list[Row] = []
            for way, pattern in PATTERNS.items():
                load: dict[str, Any] = {"way": way, "size_bytes": KIB, "window": PACK_WINDOW, "chunk": CHUNK}
                load["warm_s"] = WARM_TIMES * bench.options.warm_s

                def produce(kind: str, topics: list[str], load: dict[str, Any] = load) -> Callable[[], Awaitable[Any]]:
                    if kind == "ours":
                        return lambda: bench.our_produce(ours, topics=topics, **load)
                    return lambda: bench.kafka_produce(kafka, topics=topics, **load)

                found = await bench.take({
                    "ours, one topic": produce("ours", names[:1]), "ours, all": produce("ours", names),
                    "kafka, one topic": produce("kafka", names[:1]), "kafka, all": produce("kafka", names),
                })  # fmt: skip
                speed = {side: rate(reading) for side, reading in found.items()}
                note, target = notes(cores(found), failures(found)), at_least(OF_ONE_TOPIC)
                rows += [
                    self._row(f"{pattern}: {count} x 10 : 1 x 10, ours", speed["ours, all"], speed["ours, one topic"],
                              target, note, runs(found)),
                    self._row(f"{pattern}: {count} x 10 : 1 x 10, Kafka", speed["kafka, all"],
                              speed["kafka, one topic"]),
                    self._row(f"{pattern}: {count} x 10, ours : Kafka", speed["ours, all"], speed["kafka, all"]),
                ]  # fmt: skip
        return rows

    def _row(
        self, what: str, ours: float | None, peer: float | None, target: Target | None = None, note: str = "",
        single: dict[str, list[float]] | None = None,
    ) -> Row:  # fmt: skip
        return Row(self.name, what, "msg/s", ours, peer, target, note, single or {})


MEASURE = ManyTopics()
