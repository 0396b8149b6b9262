"""The examples of docs/how-to/spark.md run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pytubemq.sync

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pytubemq.server.cluster import ThreadedCluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PAGE = Path(__file__).parents[3] / "docs/how-to/spark.md"
BLOCK = re.compile(r"^```(python|sql)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_examples_run_from_top_to_bottom(
    spark: SparkSession, cluster: ThreadedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.create_topic("demo", partitions=2)
    with pytubemq.sync.connect(cluster.master) as tube, tube.producer("demo") as producer:
        for n in range(20):
            producer.send(b'{"id": %d, "name": "n"}' % n, msg_type="even" if n % 2 == 0 else "odd")
    names: dict[str, object] = {"spark": spark}
    kinds = []
    for kind, code in BLOCK.findall(PAGE.read_text("utf-8")):
        kinds.append(kind)
        here = code.replace("127.0.0.1:8715", cluster.master).replace("/data/", f"{tmp_path}/")
        if kind == "python":
            exec(compile(here, str(PAGE), "exec"), names)
            continue
        for statement in filter(None, map(str.strip, here.split(";"))):
            rows = spark.sql(statement).collect()
        assert {tuple(row) for row in rows} == {("even", 10), ("odd", 10)}
    assert kinds.count("python") >= 4
    assert kinds.count("sql") == 1
    assert "even|   10" in capsys.readouterr().out
    table = spark.read.parquet(f"{tmp_path}/tables/demo")
    assert sorted(row.id for row in table.collect()) == list(range(20))
    assert table.columns == ["timestamp", "id", "name"]
