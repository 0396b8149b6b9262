"""The rows that a run begins with: the topic's messages, decoded, or what another format of Spark reads.

The invariant: a record that cannot be decoded stays a row, with its reason, until the batch that holds it has counted
it; so read = accepted + rejected, always.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pytubemq.pipelines.analysis.edges import is_past, is_time
from pytubemq.pipelines.file.cluster_keys import user_options
from pytubemq.pipelines.file.model import OnError, TriggerKind
from pytubemq.pipelines.file.secrets import resolve
from pytubemq.pipelines.frames.environment import complete_environment
from pytubemq.pipelines.sql import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from pytubemq.pipelines.file.model import Pipeline, Source

ERROR: Final = "_error"
"""The column in which a rejected record says why; null in the others."""
AUDIT_COLUMNS: Final = ("topic", "msgTime", "timestamp")
"""The message's columns that audit counts need."""

_NO_SUCH_TIME: Final = "startingTimestampStrategy"


@dataclass(frozen=True, slots=True)
class Opened:
    """The opened source: the rows with all their columns, and which of those the steps see."""

    rows: DataFrame
    visible: tuple[str, ...]
    """Columns of `input`: the decoded ones, and the source's own that were asked for."""
    decoded: bool
    """True if there is a column `_error`."""

    def accepted(self, rows: DataFrame | None = None) -> DataFrame:
        """Return `input` of the first step: what could be decoded, with the visible columns."""
        from pyspark.sql import functions as f

        rows = self.rows if rows is None else rows
        if self.decoded:
            rows = rows.where(f.col(ERROR).isNull())
        return rows.select(*map(quoted, self.visible))

    def rejected(self, rows: DataFrame) -> DataFrame:
        """Return the rejected records: reason, detail, stage, where they were, and their bytes."""
        from pyspark.sql import functions as f

        return rows.where(f.col(ERROR).isNotNull()).select(f"{ERROR}.*")


def open_source(spark: SparkSession, pipeline: Pipeline, *, streaming: bool = True, beside: bool = False) -> Opened:
    """Open the source's rows as a stream, or as a table.

    Args:
        spark: the session.
        pipeline: whose source it is.
        streaming: as a stream.
        beside: for a query that reads beside the first one: it publishes no progress, which one query alone can, and
            with `on_error: fail` it ends itself at a record that cannot be decoded, for it counts none.

    Raises:
        ConfigError: the source refused its options, or does not take this decoding.
    """
    if pipeline.source.format != "tubemq":
        return _of_spark(spark, pipeline, streaming=streaming, beside=beside)
    options = source_options(pipeline, streaming=streaming, beside=beside)
    reader: Any = (spark.readStream if streaming else spark.read).format("tubemq").options(**options)
    rows = _load(reader, pipeline.source)
    if streaming:
        complete_environment(spark, "tubemq")
    return Opened(rows, visible_of(pipeline, rows.columns), ERROR in rows.columns)


def visible_of(pipeline: Pipeline, names: Sequence[str]) -> tuple[str, ...]:
    """Return those columns read from a topic that the steps see."""
    hidden = {ERROR, *_kept_for_audit(pipeline)} if ERROR in names else set()
    return tuple(name for name in names if name not in hidden)


def reads_otherwise_beside(pipeline: Pipeline) -> bool:
    """True if a query that reads beside the first one has other options than that."""
    published = pipeline.source.commit_group or any(map(_is_group, pipeline.source.options))
    return bool(published) or fails_on_reject(pipeline)


def _is_group(option: str) -> bool:
    return option.lower() == "commitgroup"


def source_options(pipeline: Pipeline, *, streaming: bool = True, beside: bool = False) -> dict[str, str]:
    """Translate the pipeline's source and decoding to options of `format("tubemq")`, as `open_source`."""
    source = pipeline.source
    options: dict[str, str | None] = {
        "master": resolve(source.master) if source.master else None,
        **user_options(source),
        "topic": ",".join(source.topics) or None,
        "topicPattern": source.topic_pattern,
        "commitGroup": source.commit_group if streaming and not beside else None,
        "filters": ",".join(source.filters) or None,
        "dedup": "true" if source.dedup else None,
        "failOnDataLoss": {"fail": None, "ignore": "false", "report": "report"}.get(source.on_data_loss),
        "lossDirectory": f"{pipeline.state}/losses" if source.on_data_loss == "report" else None,
        **_edges(source),
        **(_limits(pipeline) if streaming else {}),
        **_decoding(pipeline, strict=beside and fails_on_reject(pipeline)),
        **{name: resolve(value) for name, value in source.options.items() if not (beside and _is_group(name))},
    }
    if source.start is not None and not _times(source.start):  # it was put in place of a time, as backfill and tap do
        options = {name: value for name, value in options.items() if name.lower() != _NO_SUCH_TIME.lower()}
    return {name: value for name, value in options.items() if value is not None}


def _edges(source: Source) -> dict[str, str | None]:
    edges: dict[str, str | None] = {}
    for word, value in (("starting", source.start), ("ending", source.end)):
        if value is None:
            continue
        if not isinstance(value, str):
            edges[f"{word}Offsets"] = json.dumps(value, sort_keys=True)
        else:
            edges[f"{word}{'Timestamp' if is_time(value) else 'Offsets'}"] = value
    given = any(name.lower() == _NO_SUCH_TIME.lower() for name in source.options)
    now_ms = int(time.time() * 1000)
    if not given and (times := _times(source.start)) and all(is_past(place, now_ms) for place in times):
        edges[_NO_SUCH_TIME] = "latest"  # nothing has come since then, so what comes next is the first that is wanted
    return edges


def _times(start: str | Mapping[str, Any] | None) -> list[str]:
    """Return the times among the places to begin at. A number by partition is an offset."""
    places = start.values() if isinstance(start, Mapping) else [start]
    return [place for place in places if isinstance(place, str) and is_time(place)]


def _limits(pipeline: Pipeline) -> dict[str, str | None]:
    limit = pipeline.source.limit
    if pipeline.trigger.kind is TriggerKind.ONCE:
        return {}
    return {
        "maxRowsPerTrigger": _text(limit.rows),
        "maxBytesPerTrigger": _text(limit.size_bytes),
        "minRowsPerTrigger": _text(limit.min_rows),
        "maxTriggerDelay": None if limit.max_delay_s is None else f"{limit.max_delay_s:g}s",
        "maxFetchTimePerTask": None if limit.fetch_s is None else f"{limit.fetch_s:g}s",
    }


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _decoding(pipeline: Pipeline, *, strict: bool) -> dict[str, str | None]:
    """Return the options of decoding; if `strict`, an undecodable record is an error and nothing is kept for counts."""
    decode, source = pipeline.decode, pipeline.source
    if decode is None or decode.format == "raw":
        return {"columns": ",".join(source.columns) or None}
    kept = [*source.columns, *(() if strict else _kept_for_audit(pipeline))]
    return {
        "decode": decode.format,
        "decode.schema": decode.schema,
        "decode.inner": decode.inner,
        "decode.errors": "fail" if strict else "column",
        "decode.columns": ",".join(kept) or None,
        **{f"decode.{name}": resolve(value) for name, value in decode.options.items()},
    }


def _kept_for_audit(pipeline: Pipeline) -> tuple[str, ...]:
    """Return the message's columns read for the audit only: the steps do not see them, no decoded column hides them."""
    decode = pipeline.decode
    if decode is None or decode.format == "raw":
        return ()
    taken = {name.lower() for name in (*pipeline.source.columns, *decoded_names(pipeline))}
    return tuple(name for name in AUDIT_COLUMNS if name.lower() not in taken)


def decoded_names(pipeline: Pipeline) -> frozenset[str]:
    """Return the columns that decoding makes; none where messages stay as they are."""
    from pytubemq.decode import make_decoder

    decode = pipeline.decode
    if decode is None or decode.format == "raw":
        return frozenset()
    options = {name: resolve(value) for name, value in decode.options.items()}
    decoder = make_decoder(decode.format, schema=decode.schema, inner=decode.inner, options=options)
    return frozenset(column.name for column in decoder.columns)


def _of_spark(spark: SparkSession, pipeline: Pipeline, *, streaming: bool, beside: bool) -> Opened:
    source, decode = pipeline.source, pipeline.decode
    reader: Any = (spark.readStream if streaming else spark.read).format(source.format)
    if source.schema:
        reader = reader.schema(source.schema)
    rows = _load(reader.options(**{name: resolve(value) for name, value in source.options.items()}), source)
    if decode is None or decode.format == "raw":
        return Opened(rows, tuple(rows.columns), decoded=False)
    from pytubemq.decode import make_decoder
    from pytubemq.spark.functions import decode_dataframe

    options = {name: resolve(value) for name, value in decode.options.items()}
    decoder = make_decoder(decode.format, schema=decode.schema, inner=decode.inner, options=options)
    if decode.of_records:
        decoder = decoder.for_records()
    strict = beside and fails_on_reject(pipeline)
    decoded = decode_dataframe(rows, decoder, keep=source.columns, errors="fail" if strict else "column")
    return Opened(decoded, tuple(name for name in decoded.columns if name != ERROR), decoded=not strict)


def _load(reader: Any, source: Source) -> DataFrame:
    from pyspark.errors import PySparkException

    from pytubemq.pipelines.spark_faults import of_spark

    try:
        rows: DataFrame = reader.load(resolve(source.path)) if source.path else reader.load()
    except PySparkException as error:
        raise of_spark(error, f"the source ({source.format})") from error
    return rows


def fails_on_reject(pipeline: Pipeline) -> bool:
    """True if one record that cannot be decoded ends the run."""
    return pipeline.decode is not None and pipeline.decode.on_error is OnError.FAIL
