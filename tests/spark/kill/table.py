"""A pipeline from a topic into one Parquet table, and the table's count against the source."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def pipeline_file(
    home: Path,
    master: str,
    topic: str,
    *,
    rows: int,
    spark: str = "local[2,4]",
    python: str | None = None,
    **source: Any,
) -> Path:
    """Batches of `rows` messages; the table is `home/table`, the state `home/state`; `python` makes a step more."""
    steps = [{"name": "rows", "sql": "SELECT id, length(pad) AS size FROM input"}]
    if python is not None:
        steps.append({"name": "more", "python": python})
    spec = {
        "name": "pipeline",
        "source": {"topic": topic, "master": master, "start": "earliest", "limit": {"rows": rows}, **source},
        "decode": {"format": "json", "schema": "id BIGINT, pad STRING"},
        "steps": steps,
        "sinks": [{"name": "table", "format": "parquet", "path": f"{home}/table"}],
        "state": f"{home}/state",
        "spark": {"master": spark, "conf": {"spark.local.dir": f"{home}/local", **_small(spark)}},
    }
    file = home / "pipeline.yaml"
    file.write_text(json.dumps(spec))  # every JSON text is YAML
    return file


def _small(spark: str) -> Mapping[str, str]:
    if spark.startswith("local"):
        return {}
    return {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}


def batches(home: Path) -> int:
    """How many batches are in the ledger, whole."""
    return sum(json.loads(path.read_text())["complete"] for path in (home / "state" / "ledger").glob("[0-9]*.json"))


def column(home: Path, name: str) -> list[int]:
    """A column of the table, sorted."""
    found: list[int] = ds.dataset(home / "table", format="parquet").to_table(columns=[name])[name].to_pylist()
    return sorted(found)


def ids(home: Path) -> list[int]:
    """The messages that the table holds, sorted."""
    return column(home, "id")


def check_each_once(home: Path, messages: int) -> None:
    """Every message 0 .. messages-1 is in the table once."""
    found = Counter(ids(home))
    wanted = Counter(range(messages))
    assert (found - wanted).total() == 0, f"{(found - wanted).total()} rows too many"
    assert (wanted - found).total() == 0, f"{(wanted - found).total()} rows are missing"
