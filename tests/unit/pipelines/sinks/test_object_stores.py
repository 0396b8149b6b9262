"""Where a directory is not renamed in one step, Parquet in batches is refused; and no directory is looked for above."""

from __future__ import annotations

import pytest

from pytubemq.errors import ConfigError
from pytubemq.pipelines.file.model import Sink
from pytubemq.pipelines.sinks.files import HadoopFiles
from pytubemq.pipelines.sinks.sink_factory import make_sink


def test_parquet_in_batches_is_refused_in_an_object_store_by_the_place_that_a_reference_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LAKE_OF_TEST", "s3a://bucket")
    with pytest.raises(ConfigError, match="sink lake: path: neither exactly once nor at least once is possible in s3a"):
        make_sink(Sink("lake", "parquet", path="${env:LAKE_OF_TEST}/t"))
    monkeypatch.setenv("LAKE_OF_TEST", "hdfs://name")
    assert make_sink(Sink("lake", "parquet", path="${env:LAKE_OF_TEST}/t"))


class _Only(HadoopFiles):
    """Files among which one directory is there."""

    def __init__(self, there: str) -> None:
        self._there = there

    def exists(self, name: str) -> bool:
        return name == self._there


def test_in_an_object_store_nothing_is_tried_above_the_path_itself() -> None:
    assert _Only("s3a://bucket").nearest("s3a://bucket/lake/t") == "s3a://bucket/lake/t"
    assert _Only("hdfs://name/lake").nearest("hdfs://name/lake/a/t") == "hdfs://name/lake"
    assert _Only("/lake").nearest("/lake/t") == "/lake"
    assert [_Only("").nearest(name) for name in ("/lake/t", "file:/lake/t")] == ["/", "file:/"]
