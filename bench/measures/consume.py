"""Consuming from the earliest message on: one consumer of a new group, 1 KiB, all from the system's memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.harness.bench import CONSUME_TOPIC
from bench.harness.decisions import Row, at_least
from bench.measures.common import KIB, cores, notes, our_consumer, rate, runs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bench.harness.bench import Bench

TIMES_JAVA = 4.0
TIMES_AIOKAFKA = 1.5
MESSAGES, QUICK_MESSAGES = 600_000, 200_000
JAVA_MESSAGES, QUICK_JAVA_MESSAGES = 300_000, 100_000


class Consume:
    """Every side has its topic filled once; every run is a group of its own that looks at each body and confirms."""

    name = "consume"
    title = "consume from the earliest"
    limit_s = 900.0

    async def run(self, bench: Bench) -> list[Row]:
        """A row per peer."""
        quick = bench.options.quick
        messages = QUICK_MESSAGES if quick else MESSAGES
        java_messages = QUICK_JAVA_MESSAGES if quick else JAVA_MESSAGES
        ours, java, kafka = await bench.ours(), await bench.java(), await bench.kafka()
        topic = bench.fresh("consume")
        bench.progress("filling the topics")
        await ours.create([topic])
        await kafka.create([topic])
        fill = {"topics": [topic], "size_bytes": KIB, "messages": messages}
        await bench.our_client("ours_fill", ours, fill)
        await kafka.client("confluent_fill", fill)
        await java.fill(CONSUME_TOPIC, size_bytes=KIB, messages=java_messages)

        def spec() -> dict[str, Any]:
            return {"topic": topic, "group": bench.fresh("group"), "messages": messages}

        sides: dict[str, Callable[[], Awaitable[dict[str, Any]]]] = {
            "ours": our_consumer(bench, ours, topic, messages),
            "java": lambda: java.consume(CONSUME_TOPIC, group=bench.fresh("group"), messages=java_messages),
            "aiokafka": lambda: kafka.client("aiokafka_consume", spec()),
            "confluent": lambda: kafka.client("confluent_consume", spec()),
        }
        found = await bench.take(sides)
        await ours.delete([topic])
        await kafka.delete([topic])
        speed = {side: rate(reading) for side, reading in found.items()}
        return [
            Row(self.name, "1 KiB: ours : Java consumer at Java Broker", "msg/s", speed["ours"], speed["java"],
                at_least(TIMES_JAVA), notes(cores(found)), runs(found)),
            Row(self.name, "1 KiB: ours : aiokafka", "msg/s", speed["ours"], speed["aiokafka"],
                at_least(TIMES_AIOKAFKA)),
            Row(self.name, "1 KiB: ours : confluent-kafka", "msg/s", speed["ours"], speed["confluent"]),
        ]  # fmt: skip


MEASURE = Consume()
