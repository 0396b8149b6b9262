"""Where the time of a batch read goes: our client and Arrow columns, and everything else, by processor time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.harness.decisions import Row, median
from bench.harness.processes import client, ours
from bench.measures.common import notes, runs
from bench.spark_measures.common import our_topic, rows_of, spark

if TYPE_CHECKING:
    from bench.harness.bench import Bench

SPARK_LIMIT_S = 300.0


class Share:
    """The same topic read twice: by Spark to nothing, and by the source's own way to Arrow without Spark."""

    name = "share"
    title = "time outside Spark and its Python workers"
    limit_s = 1200.0

    async def run(self, bench: Bench) -> list[Row]:
        """Shown, without a target."""
        options, cluster = await our_topic(bench), await bench.ours()
        rows = rows_of(bench)
        given = {"options": options, "rows": rows, "pids": cluster.pids}
        found = await bench.take({
            "with Spark": lambda: spark(bench, {"do": "noop", "format": "tubemq", **given}),
            "without": lambda: client(ours("spark_source"), given, within_s=SPARK_LIMIT_S),
        })  # fmt: skip
        whole = _each_us(found["with Spark"].runs, "client")
        alone = _each_us(found["without"].runs, "client")
        broker = _each_us(found["with Spark"].runs, "broker")
        percent = None if not whole or alone is None else 100 * alone / whole
        profile = found["without"].runs[0]["profile"]
        said = [
            f"a row: {alone or 0:.2f} us in our client and Arrow columns, {whole or 0:.2f} us in Spark and its Python "
            f"workers with these, {broker or 0:.2f} us in the Broker",
            "our part, by what it does: " + ", ".join(f"{what} {share:.0f} %" for what, share in profile.items()),
        ]
        return [
            Row(self.name, "of the processor time of Spark and its workers, ours", "%", percent,
                note=notes(*said), runs=runs(found))
        ]  # fmt: skip


def _each_us(taken: tuple[dict[str, object], ...], who: str) -> float | None:
    """Processor time a row in microseconds."""
    spent = []
    for run in taken:
        cores, speed = run["cores"], run["msgs_per_s"]
        assert isinstance(cores, dict)
        assert isinstance(speed, float)
        spent.append(cores[who] / speed * 1e6)
    return median(spent)


MEASURE = Share()
