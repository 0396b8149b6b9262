"""The column of data time that a file names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pyspark.sql.types import MapType, StringType, StructType

from pytubemq.pipelines.file.model import Audit, Pipeline, Source
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.rules.rule import Compiled, Context, Need
from pytubemq.pipelines.rules.source import audit_time


def faults(time: str | None) -> list[str]:
    columns = StructType().add("n", "integer").add("m", MapType(StringType(), StringType())).add("t", "timestamp")
    source: Any = SimpleNamespace(schema=columns)
    pipeline = Pipeline("p", Source(), audit=Audit(time))
    context = Context(pipeline, unplaced(pipeline), Need.SESSION, compiled=Compiled(source, source=source))
    return [fault.text for fault in audit_time.check(context)]


def test_a_column_of_data_time_that_is_none_is_refused() -> None:
    assert [faults(time) for time in (None, "n", "t", "not there")] == [[], [], [], []]
    [said] = faults("m")
    assert said.startswith("audit.time: names the column m, which is map<string,string> and not a time")
