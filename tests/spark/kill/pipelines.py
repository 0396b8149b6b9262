"""Pipelines from the topic `in` into every sink, a few sinks each, so that one kill of a driver falls into all."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.kafka import KafkaNode
    from tests.support.postgres import Postgres

BATCH = 1500
SEVERAL_TASKS = {"minPartitions": "4"}
"""Of small batches, too, of which one task would take all."""
JSON = {"format": "json", "schema": "id BIGINT, pad STRING"}
ROWS = {"name": "rows", "sql": "SELECT id, id % 7 AS seventh FROM input"}
FROM_BODY = """
    SELECT CAST(get_json_object(CAST(body AS STRING), '$.id') AS BIGINT) AS id FROM input
    WHERE get_json_object(CAST(body AS STRING), '$.id') IS NOT NULL"""


@dataclass(frozen=True, slots=True)
class Targets:
    """Where the pipelines read and write."""

    home: Path
    master: str
    postgres: Postgres
    kafka: KafkaNode

    @property
    def environ(self) -> dict[str, str]:
        """What their files refer to."""
        return {"POSTGRES_PASSWORD": self.postgres.password}

    def state(self, name: str) -> Path:
        """Of a pipeline."""
        return self.home / f"state-{name}"

    def out(self, name: str) -> Path:
        """Where a sink of files writes."""
        return self.home / "out" / name

    def derby(self) -> str:
        """The database's URL."""
        return f"jdbc:derby:{self.home}/derby;create=true"

    def files(self) -> dict[str, str]:
        """A file for each pipeline, by its name."""
        specs = (self._plain(), self._delta(), self._iceberg(), self._jdbc(), self._log())
        return {spec["name"]: self._file(spec) for spec in specs}

    def _plain(self) -> dict[str, Any]:
        """Dead letters and Parquet, one directory a batch each, then Kafka."""
        options = {"kafka.bootstrap.servers": self.kafka.servers}
        return {
            "name": "plain",
            "decode": {**JSON, "on_error": "dead_letter"},
            "steps": [ROWS],
            "sinks": [
                {"name": "files", "format": "parquet", "path": str(self.out("files"))},
                {"name": "kafka", "format": "kafka", "topic": "rows", "options": options},
            ],
            "dead_letter": {"format": "parquet", "path": str(self.out("rejected"))},
        }

    def _delta(self) -> dict[str, Any]:
        """Delta."""
        return {
            "name": "delta",
            "source": SEVERAL_TASKS,
            "decode": {**JSON, "on_error": "drop"},
            "steps": [ROWS, {"name": "standing", "python": "tests.spark.kill.standing:delta"}],
            "sinks": [{"name": "delta", "format": "delta", "path": str(self.out("delta"))}],
        }

    def _iceberg(self) -> dict[str, Any]:
        """Iceberg, then a topic."""
        return {
            "name": "iceberg",
            "source": SEVERAL_TASKS,
            "decode": {**JSON, "on_error": "drop"},
            "steps": [
                ROWS,
                {"name": "standing", "python": "tests.spark.kill.standing:topic"},
                {"name": "bodies", "sql": "SELECT CAST(id AS STRING) AS body FROM standing"},
            ],
            "sinks": [
                {"name": "ice", "format": "iceberg", "table": "ice.db.rows", "input": "rows"},
                {"name": "topic", "format": "tubemq", "topic": "out", "input": "bodies"},
            ],
        }

    def _jdbc(self) -> dict[str, Any]:
        """Derby, then PostgreSQL."""
        login = {"user": self.postgres.user, "password": "${env:POSTGRES_PASSWORD}"}
        return {
            "name": "jdbc",
            "decode": {**JSON, "on_error": "drop"},
            "steps": [ROWS],
            "sinks": [
                {"name": "derby", "format": "jdbc", "url": self.derby(), "table": "rows_out"},
                {"name": "postgres", "format": "jdbc", "url": self.postgres.url, "table": "rows_out", "options": login},
            ],
        }

    def _log(self) -> dict[str, Any]:
        """Spark's own file sink; all that there is in one batch."""
        return {
            "name": "log",
            "source": {**SEVERAL_TASKS, "limit": None},
            "steps": [
                {"name": "rows", "sql": FROM_BODY},
                {"name": "standing", "python": "tests.spark.kill.standing:lake"},
            ],
            "sinks": [{"name": "lake", "format": "parquet", "path": str(self.out("lake")), "layout": "log"}],
        }

    def _file(self, spec: dict[str, Any]) -> str:
        options = dict(spec.pop("source", {}))
        source = {"topic": "in", "master": self.master, "start": "earliest", "options": options}
        if options.pop("limit", BATCH) is not None:
            source["limit"] = {"rows": BATCH}
        file = self.home / f"{spec['name']}.yaml"
        more = {"source": source, "state": str(self.state(spec["name"]))}
        file.write_text(json.dumps({**spec, **more}))  # every JSON text is YAML
        return str(file)
