"""Where a directory is not renamed in one step, Parquet in batches is refused."""

from __future__ import annotations

import pytest

from pytubemq.errors import ConfigError
from pytubemq.spark.pipeline.sinks.parquet import ParquetBatches
from pytubemq.spark.pipeline.spec.model import Sink, SinkFormat


def test_parquet_in_batches_is_refused_in_an_object_store_by_the_place_that_a_reference_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LAKE_OF_TEST", "s3a://bucket")
    with pytest.raises(ConfigError, match="Parquet in s3a loses rows"):
        ParquetBatches(Sink("lake", SinkFormat.PARQUET, path="${env:LAKE_OF_TEST}/t"))
    monkeypatch.setenv("LAKE_OF_TEST", "hdfs://name")
    assert ParquetBatches(Sink("lake", SinkFormat.PARQUET, path="${env:LAKE_OF_TEST}/t"))
