"""The driver killed between a sink's write and the batch's end, at every sink in turn; then a count against the source.

One pipeline writes to all sinks. Each run is held behind the write of one sink, before that is told to anybody, and all
of its processes are killed. The next run does the batch again: the sinks before have it in the ledger, the one in
question must find it in its target, the others get it for the first time.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.kill.cluster import KillableCluster
from tests.spark.kill.process import PipelineRun
from tests.spark.pipeline.sink_session import SinkSession, all_jars
from tests.spark.postgres import Postgres

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]

MESSAGES = 4000
BAD = 40
BATCH = 1500
EXACT = ("files", "delta", "ice", "derby", "postgres", "topic")


def pipeline_file(home: Path, cluster: KillableCluster, postgres: Postgres) -> Path:
    """One pipeline with every sink that promises each row once."""
    sinks = [
        {"name": "files", "format": "parquet", "path": f"{home}/out/files"},
        {"name": "delta", "format": "delta", "path": f"{home}/out/delta"},
        {"name": "ice", "format": "iceberg", "table": "ice.db.rows"},
        {"name": "derby", "format": "jdbc", "url": f"jdbc:derby:{home}/derby;create=true", "table": "rows_out"},
        {
            "name": "postgres", "format": "jdbc", "url": postgres.url, "table": "rows_out",
            "options": {"user": postgres.user, "password": "${env:POSTGRES_PASSWORD}"},
        },
        {"name": "topic", "format": "tubemq", "master": cluster.master, "topic": "out", "input": "bodies"},
    ]  # fmt: skip
    for sink in sinks:
        if sink["name"] != "topic":
            sink["input"] = "rows"
    spec = {
        "name": "all-sinks",
        "source": {"topic": "in", "master": cluster.master, "start": "earliest", "limit": {"rows": BATCH}},
        "decode": {"format": "json", "schema": "id BIGINT, pad STRING", "on_error": "dead_letter"},
        "steps": [
            {"name": "rows", "sql": "SELECT id, id % 7 AS seventh FROM input"},
            {"name": "bodies", "sql": "SELECT CAST(id AS STRING) AS body FROM rows"},
        ],
        "sinks": sinks,
        "dead_letter": {"format": "parquet", "path": f"{home}/out/rejected"},
        "state": f"{home}/state",
        "spark": {
            "master": "local[2,4]",
            "jars": all_jars(),
            "conf": {
                "spark.local.dir": f"{home}/local",
                "spark.sql.catalog.ice.type": "hadoop",
                "spark.sql.catalog.ice.warehouse": f"{home}/ice",
                "spark.driver.extraJavaOptions": f"-Dderby.system.home={home}",
            },
        },
    }
    file = home / "pipeline.yaml"
    file.write_text(json.dumps(spec))  # every JSON text is YAML
    return file


def test_a_driver_killed_behind_each_sinks_write_leaves_every_row_once_in_all_of_them(
    tmp_path: Path, soak: bool
) -> None:
    with Postgres(tmp_path) as postgres, KillableCluster(tmp_path / "cluster") as cluster:
        cluster.create_topic("in")
        cluster.create_topic("out")
        cluster.spoil("in", BAD)
        cluster.fill("in", 0, MESSAGES)
        file = pipeline_file(tmp_path, cluster, postgres)
        environ = {"POSTGRES_PASSWORD": postgres.password}
        for batch in range(3 if soak else 1):
            for sink in ("dead_letter", *EXACT):
                with PipelineRun(file, "--once", environ=environ, pause_at=f"sink-written:{sink}:{batch}") as run:
                    run.until_paused()
            with PipelineRun(file, "--once", environ=environ, pause_at=f"ledger-written:{batch}") as run:
                run.until_paused()
        with PipelineRun(file, "--once", environ=environ) as run:
            run.end()
        found = _written(tmp_path, cluster, postgres)
    wanted = Counter(range(MESSAGES))
    wrong = {name: _difference(wanted, Counter(ids)) for name, ids in found.items() if name != "rejected"}
    assert wrong == dict.fromkeys(EXACT, "")
    assert len(found["rejected"]) == len(set(found["rejected"])) == BAD


def _written(home: Path, cluster: KillableCluster, postgres: Postgres) -> dict[str, list[Any]]:
    with SinkSession(home) as session:

        def ids(select: str) -> list[Any]:
            return [row[0] for row in session.call("query", select=select)]

        found = {
            "files": ids(f"SELECT id FROM parquet.`{home}/out/files`"),
            "delta": ids(f"SELECT id FROM delta.`{home}/out/delta`"),
            "ice": [int(row[0]) for row in session.call("iceberg", table="ice.db.rows")],
            "rejected": ids(f"SELECT concat(partition, ':', offset) FROM parquet.`{home}/out/rejected`"),
        }
        login = {"user": postgres.user, "password": postgres.password}
        for name, url, options in (
            ("derby", f"jdbc:derby:{home}/derby", {}),
            ("postgres", postgres.url, {**login, "driver": "org.postgresql.Driver"}),
        ):
            rows = session.call("jdbc", url=url, table="rows_out", options=options)
            found[name] = [row[0] for row in rows]
        found["topic"] = cluster.bodies("out")
    return found


def _difference(wanted: Counter[int], found: Counter[int]) -> str:
    missing, repeated = wanted - found, found - wanted
    if not missing and not repeated:
        return ""
    return f"{missing.total()} missing, {repeated.total()} too many"
