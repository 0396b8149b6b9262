"""Spark over TLS: rows written and read, in batches and in a stream, and nothing but paths in what Spark shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytubemq.server.cluster import ThreadedCluster
from tests.support.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = 200


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def options(authority: Authority) -> Iterator[dict[str, str]]:
    """The options of a topic at a cluster that demands certificates."""
    server, client = authority.issue("server"), authority.issue("client", "client.example")
    settings = {"tls.cert": server.cert, "tls.key": server.key, "tls.client_ca": authority.path}
    with ThreadedCluster(settings=settings) as cluster:
        cluster.create_topic("safe", partitions=2)
        yield {
            "master": cluster.master_tls,
            "topic": "safe",
            "tlsCa": authority.path,
            "tlsCert": client.cert,
            "tlsKey": client.key,
        }


def test_batches_and_streams_over_mutual_tls(spark: SparkSession, options: dict[str, str], tmp_path: Path) -> None:
    rows = spark.range(ROWS).selectExpr("CAST(CAST(id AS STRING) AS BINARY) AS body")
    rows.write.format("tubemq").options(**options).mode("append").save()
    read = spark.read.format("tubemq").options(**options).load()
    assert {bytes(row.body) for row in read.select("body").collect()} == {b"%d" % number for number in range(ROWS)}
    plan = read._jdf.queryExecution().toString()
    assert Path(options["tlsKey"]).read_text() not in plan
    assert "PRIVATE KEY" not in plan

    address = f"tls://{options['master']}?ca={options['tlsCa']}&cert={options['tlsCert']}&key={options['tlsKey']}"
    query = (
        spark.readStream.format("tubemq")
        .options(master=address, topic="safe", startingOffsets="earliest")
        .load()
        .select("body")
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "rows"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(90)
    assert spark.read.parquet(str(tmp_path / "rows")).count() == ROWS


def test_a_wrong_ca_ends_a_read_at_once(spark: SparkSession, options: dict[str, str], tmp_path: Path) -> None:
    strangers = Authority(tmp_path, "strangers")
    with pytest.raises(Exception, match="signed by an unknown CA"):
        spark.read.format("tubemq").options(**{**options, "tlsCa": strangers.path}).load().collect()
