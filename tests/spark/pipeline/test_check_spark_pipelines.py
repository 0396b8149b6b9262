"""The template for Spark's own declarative pipelines, run by `spark-pipelines` against a real cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytubemq.pipelines.operate.spark_pipelines import spark_pipelines_files
from tests.spark.artifacts import pipelines_packages

if TYPE_CHECKING:
    from tests.spark.conftest import Topic

pytestmark = pytest.mark.spark

LIMIT_S = 300


@pytest.mark.timeout(2 * LIMIT_S)
def test_the_template_for_declarative_pipelines_reads_a_topic_into_tables(topic: Topic, tmp_path: Path) -> None:
    topic.send(50)
    for name, text in spark_pipelines_files(
        name="numbers", topic=topic.name, directory=tmp_path, master=topic.master
    ).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    here = str(Path(sys.executable).parent)
    environment = os.environ | {
        "PYTHONPATH": str(pipelines_packages()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
    }
    command = [f"{here}/spark-pipelines", "run", "--spec", str(tmp_path / "spark-pipeline.yml")]
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert rows(tmp_path / "spark-warehouse/numbers_messages") == 50
    import pyarrow.parquet as pq

    counts = pq.read_table(tmp_path / "spark-warehouse/numbers_by_type").to_pylist()
    assert {row["msgType"]: row["count"] for row in counts} == {"even": 25, "odd": 25}


def rows(table: Path) -> int:
    """Of a table of Parquet files."""
    import pyarrow.parquet as pq

    return sum(pq.ParquetFile(file).metadata.num_rows for file in table.rglob("*.parquet"))
