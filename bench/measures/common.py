"""What several measures need: their loads by name, peers' figures that are taken once, notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.harness.bench import PRODUCE_TOPIC
from bench.harness.decisions import figure, median

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bench.harness.bench import Bench, Reading
    from bench.harness.cluster import Ours

KIB = 1024
SINGLE_WINDOW = 1_000
"""Messages under way; the official client's best working point."""
PACK_WINDOW = 20_000
MANY_CHUNK_BYTES = 256 * KIB
"""What one `submit_many` hands over."""

DISTURBING_CORES = 0.1
"""What other processes may take before it is told."""


def our_producer(bench: Bench, cluster: Ours, way: str, size_bytes: int, **more: Any) -> Callable[[], Awaitable[Any]]:
    """Our producer in one of its ways, with the usual window."""
    spec: dict[str, Any] = {"way": way, "size_bytes": size_bytes, "window": PACK_WINDOW}
    spec["chunk"] = max(1, min(PACK_WINDOW // 8, MANY_CHUNK_BYTES // size_bytes))
    if way == "single":
        spec["window"] = SINGLE_WINDOW
    return lambda: bench.our_produce(cluster, **(spec | more))


def our_consumer(
    bench: Bench, cluster: Ours, topic: str, messages: int, **more: Any
) -> Callable[[], Awaitable[dict[str, Any]]]:
    """Our consumer of the first `messages` of a topic, each time in a group of its own."""
    return lambda: bench.our_client(
        "ours_consume", cluster, {"topic": topic, "group": bench.fresh("group"), "messages": messages, **more}
    )


async def kafka_producer(bench: Bench, way: str, size_bytes: int) -> Callable[[], Awaitable[Any]]:
    """confluent-kafka's producer, all as it comes."""
    kafka = await bench.kafka()
    chunk = max(1, MANY_CHUNK_BYTES // size_bytes)
    return lambda: bench.kafka_produce(kafka, way=way, size_bytes=size_bytes, chunk=chunk)


async def java_producer(bench: Bench) -> Callable[[], Awaitable[Any]]:
    """The official producer, 1 KiB, its best window; it warms up twice as long, for its compiler."""
    java = await bench.java()
    options = bench.options
    return lambda: java.produce(
        PRODUCE_TOPIC, size_bytes=KIB, window=SINGLE_WINDOW, warm_s=2 * options.warm_s, measure_s=options.measure_s
    )


def rate(reading: Reading) -> float | None:
    """The median rate."""
    return median(reading.of("msgs_per_s"))


def runs(readings: dict[str, Reading], *path: str) -> dict[str, list[float]]:
    """Every run's figure by side."""
    return {side: reading.of(*(path or ("msgs_per_s",))) for side, reading in readings.items()}


def cores(readings: dict[str, Reading]) -> str:
    """How many processor cores each side's client and Broker took, and how long per message, as a note."""
    said = []
    for side, reading in readings.items():
        speed = rate(reading) or 0.0
        used = {who: median(reading.of("cores", who)) or 0.0 for who in reading.runs[0]["cores"]}
        others = used.pop("others", 0.0)
        line = f"{side}: " + ", ".join(f"{who} {value:.2f}{_each(value, speed)}" for who, value in used.items())
        said.append(line + (f"; other processes {others:.2f}" if others >= DISTURBING_CORES else ""))
    return "\n".join(["processor cores taken (and us a message):", *(f"  {line}" for line in said)])


def _each(cores: float, msgs_per_s: float) -> str:
    """Processor time of one message in microseconds, in brackets; nothing where none came."""
    return f" ({cores / msgs_per_s * 1e6:.3g})" if msgs_per_s else ""


def failures(readings: dict[str, Reading]) -> str:
    """How many sends failed, where any did."""
    found = {side: sum(reading.of("failed")) for side, reading in readings.items() if "failed" in reading.runs[0]}
    said = [f"{side}: {figure(count)} sends failed" for side, count in found.items() if count]
    return "; ".join(said)


def notes(*texts: str) -> str:
    """Those that say something, one a line."""
    return "\n".join(text for text in texts if text)
