"""The kind of the Parquet sink: a directory for each batch, or Spark's file log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.key import Key, Kind
from pytubemq.pipelines.file.model import LOG, Guarantee, OnSchemaChange
from pytubemq.pipelines.file.sink_kind import DeadLetterKind, Promise, SinkKind, Wrong
from pytubemq.pipelines.sinks.object_stores import wrong_path
from pytubemq.pipelines.sinks.shared_keys import ON_SCHEMA_CHANGE, PARTITION_BY, PATH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.pipelines.file.model import Sink
    from pytubemq.pipelines.file.sink_kind import Intake

BATCH: Final = "batch"
"""The column that readers see because directories are named by it; it would hide one of the rows' own."""
_BATCHES: Final = "layout: batches"
_LOG: Final = "layout: log"


def _case(sink: Sink, intake: Intake) -> str:
    return _LOG if sink.layout == LOG else _BATCHES


def _wrong(sink: Sink) -> Iterator[Wrong]:
    if sink.layout == LOG:
        if sink.on_schema_change is not OnSchemaChange.FAIL:
            text = "has no effect with layout log: Spark's file sink does not look at existing columns"
            hint = "leave it out, or use layout batches"
            yield Wrong("on_schema_change", text, hint, at_key=True, code=FaultCode.CONTRADICTION)
        return
    hidden = next((name for name in sink.partition_by if name.lower() == BATCH), None)
    if hidden is not None:
        yield Wrong("partition_by", *hides(hidden))
    yield from wrong_path(sink.path)


def hides(column: str) -> tuple[str, str]:
    """Return why rows cannot have such a column, and the remedy."""
    text = f"readers would see the batch's directory in place of the column {column}"
    return text, "rename the column in a step, or use layout: log"


KIND: Final = SinkKind(
    name="parquet",
    keys=(
        PATH,
        PARTITION_BY,
        Key(
            "layout", Kind.CHOICE,
            "`batches`: a directory for each batch; `log`: Spark's file sink, for Spark as the reader",
            choices=("batches", LOG), default="batches",
        ),
        ON_SCHEMA_CHANGE,
    ),
    needs=(("path",),),
    promises={
        _BATCHES: Promise(
            Guarantee.EXACTLY_ONCE,
            "a batch is written to a temporary directory that is renamed to its batch id; a replay finds it there",
            "a file system whose rename is atomic (local, HDFS)",
        ),
        _LOG: Promise(
            Guarantee.EXACTLY_ONCE,
            "Spark's file sink records the names of a batch's files in its log in one step, once for each batch",
            "Spark as the reader: others also read files of attempts that were killed",
        ),
    },
    case=_case,
    wrong=_wrong,
    set_by_runner=frozenset({"checkpointlocation"}),
    key_of_option={"path": "path"},
    dead_letters=DeadLetterKind(
        keys=(Key("path", Kind.TEXT, "directory or URI", default="`<state>/dead_letter`"),), beside_state=True
    ),
    template="""
sinks:
  - name: lake
    format: parquet
    path: tables/{name}                    # a directory, or hdfs://...; in s3a://... take delta
    partition_by: [day]
    guarantee: exactly_once
""",
)  # fmt: skip
