"""The driver killed inside and behind the write of every sink; then a count against the source.

One driver runs several pipelines. Each is held at a place of its own, and when all stand there, all of its processes
are killed. The next driver does those batches again: sinks before have them in the ledger, the one in
question must find its own in its target or throw away what is half there, and those behind get theirs for the first
time.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.kafka import KafkaNode
from tests.spark.kill.cluster import KillableCluster
from tests.spark.kill.pipelines import Targets
from tests.spark.pipeline.sink_session import SinkSession
from tests.support.postgres import Postgres

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]

MESSAGES = 4000
BAD = 40
EXACT = ("files", "delta", "ice", "derby", "postgres", "topic", "lake")
TASKS = 4
"""At once; two may stand still while others go on."""
LAKE, DELTA, TOPIC = "task:lake:0", "task:delta:0", "task:topic:0"
ROUNDS = (
    {
        "plain": "sink-written:dead_letter:{0}",
        "delta": DELTA,
        "iceberg": "sink-staged:ice:{0}",
        "jdbc": "sink-staged:derby:{0}",
        "log": LAKE,
    },
    {
        "plain": "sink-staged:files:{0}",
        "delta": "sink-written:delta:{0}",
        "iceberg": "sink-written:ice:{0}",
        "jdbc": "sink-written:derby:{0}",
        "log": LAKE,
    },
    {
        "plain": "sink-written:files:{0}",
        "delta": "ledger-written:{0}",
        "iceberg": TOPIC,
        "jdbc": "sink-staged:postgres:{0}",
    },
    {
        "plain": "sink-written:kafka:{0}",
        "delta": "sink-written:delta:{1}",
        "iceberg": "sink-written:topic:{0}",
        "jdbc": "sink-written:postgres:{0}",
    },
)
"""Where each pipeline stands when their driver is killed, by the numbers of two batches that follow each other. A task
that stands is the first one of the sink's write, while the others have done theirs.
"""
IN_SPARKS_LOG = 1
"""The round in which Spark's own file sink goes on, and the kill comes as soon as the batch stands in its log."""


def test_a_driver_killed_inside_and_behind_each_sinks_write_leaves_every_row_once_in_all_of_them(
    tmp_path: Path, soak: bool
) -> None:
    times = 3 if soak else 1
    with _servers(tmp_path) as (postgres, cluster, kafka):
        targets = Targets(tmp_path, cluster.master, postgres, kafka)
        files = targets.files()
        for time in range(times):
            cluster.spoil("in", BAD)
            cluster.fill("in", time * MESSAGES, MESSAGES)
            for number, points in enumerate(ROUNDS):
                held = Held([point.format(2 * time, 2 * time + 1) for point in points.values()], targets, cluster)
                running = [files[name] for name in points]
                held.run_and_kill(running, in_sparks_log=time if number == IN_SPARKS_LOG else None)
        with SinkSession(tmp_path, tasks=TASKS, environ=targets.environ) as session:
            session.call("run_pipelines", files=list(files.values()))
            found = _written(session, targets, cluster)
    wanted = Counter(range(times * MESSAGES))
    wrong = {name: _difference(wanted, Counter(found[name])) for name in EXACT}
    assert wrong == dict.fromkeys(EXACT, "")
    assert len(found["rejected"]) == len(set(found["rejected"])) == times * BAD
    assert set(found["kafka"]) == set(wanted)
    assert len(found["kafka"]) > len(wanted), "Kafka has no row twice: the kill did not come behind its write"


@contextlib.contextmanager
def _servers(home: Path) -> Iterator[tuple[Postgres, KillableCluster, KafkaNode]]:
    with contextlib.ExitStack() as stack:
        kafka = KafkaNode(home / "kafka")
        stack.push(kafka)
        with ThreadPoolExecutor(1) as beside:  # its process belongs to a thread of its own, which stays
            started = beside.submit(kafka.__enter__)
            postgres = stack.enter_context(Postgres(home))
            cluster = stack.enter_context(KillableCluster(home / "cluster"))
            cluster.create_topic("in")
            cluster.create_topic("out")
        started.result()
        yield postgres, cluster, kafka


class Held:
    """Pipelines that stand at their points until they are killed."""

    def __init__(self, points: Sequence[str], targets: Targets, cluster: KillableCluster) -> None:
        self._points = tuple(points)
        self._targets = targets
        self._pause = targets.home / "paused"
        shutil.rmtree(self._pause, ignore_errors=True)
        self._pause.mkdir()
        counts = {DELTA: partial(self._parts, "delta"), LAKE: partial(self._parts, "lake")}
        counts[TOPIC] = partial(cluster.held, "out")
        self._counts = {point: count for point, count in counts.items() if point in self._points}
        """What is half there where a task stands: files, or messages."""

    def run_and_kill(self, files: list[str], *, in_sparks_log: int | None) -> None:
        """Kill them when all stand; or when Spark's file sink, let go on, has a batch of this number in its log."""
        environ = {"PYTUBEMQ_PAUSE_AT": ",".join(self._points), "PYTUBEMQ_PAUSE_DIR": str(self._pause)}
        before = {point: count() for point, count in self._counts.items()}
        with SinkSession(self._targets.home, tasks=TASKS, environ={**environ, **self._targets.environ}) as session:
            session.ask("run_pipelines", files=files, stand=[str(self._pause / point) for point in self._points])
            session.until(lambda: {path.name for path in self._pause.iterdir()} == set(self._points))
            session.until(lambda: all(count() > before[point] for point, count in self._counts.items()), look_s=0.1)
            doomed = session.processes()
            if in_sparks_log is not None:
                (self._pause / LAKE).unlink()
                entry = self._targets.out("lake") / "_spark_metadata" / str(in_sparks_log)
                session.until(entry.exists, look_s=0)
            session.kill(doomed)
        if in_sparks_log is not None:
            self._without_commit(in_sparks_log)

    def _parts(self, name: str) -> int:
        """Files of a table, whether they count or not."""
        return sum(path.stat().st_size > 0 for path in self._targets.out(name).glob("part-*.parquet"))

    def _without_commit(self, batch: int) -> None:
        """Spark commits some milliseconds after its file sink; had it been quicker than the kill, this puts it back."""
        commits = self._targets.state("log") / "checkpoint-log-lake" / "commits"
        for name in (str(batch), f".{batch}.crc"):
            (commits / name).unlink(missing_ok=True)


def _written(session: SinkSession, targets: Targets, cluster: KillableCluster) -> dict[str, list[Any]]:
    def ids(select: str) -> list[Any]:
        return [row[0] for row in session.call("query", select=select)]

    def rows(url: str, **options: str) -> list[Any]:
        return [row[0] for row in session.call("jdbc", url=url, table="rows_out", options=options)]

    postgres, out = targets.postgres, targets.out
    login = {"user": postgres.user, "password": postgres.password, "driver": "org.postgresql.Driver"}
    messages = session.call("kafka", servers=targets.kafka.servers, topic="rows")
    return {
        "files": ids(f"SELECT id FROM parquet.`{out('files')}`"),
        "rejected": ids(f"SELECT concat(partition, ':', offset) FROM parquet.`{out('rejected')}`"),
        "delta": ids(f"SELECT id FROM delta.`{out('delta')}`"),
        "ice": [int(row[0]) for row in session.call("iceberg", table="ice.db.rows")],
        "derby": rows(targets.derby()),
        "postgres": rows(postgres.url, **login),
        "topic": cluster.bodies("out"),
        "lake": ids(f"SELECT id FROM parquet.`{out('lake')}`"),
        "kafka": [json.loads(value)["id"] for _, value in messages],
    }


def _difference(wanted: Counter[int], found: Counter[int]) -> str:
    missing, repeated = wanted - found, found - wanted
    if not missing and not repeated:
        return ""
    return f"{missing.total()} missing, {repeated.total()} too many"
