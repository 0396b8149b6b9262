"""Test for plans that keep state from batch to batch, made on Spark's own plan.

The invariant: a plan counts as one that can run batch by batch only if each of its parts is known to give, over the
batches of a stream, what it gives over the stream; anything not known goes to Spark as a stream, which refuses what it
cannot do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

ROW_BY_ROW: Final = frozenset(
    {
        "Project", "Filter", "SubqueryAlias", "View", "Generate", "Repartition", "RepartitionByExpression",
        "EventTimeWatermark", "MapInArrow", "PythonMapInArrow", "MapInPandas", "DeserializeToObject", "MapElements",
        "SerializeFromObject", "TypedFilter", "MapPartitions", "ArrowEvalPython", "BatchEvalPython", "Expand",
        "ResolvedHint", "UnresolvedHint", "LateralJoin", "WithCTE", "CTERelationDef", "CTERelationRef", "Hint",
        "StreamingRelation", "StreamingRelationV2", "StreamingExecutionRelation", "StreamingDataSourceV2Relation",
        "StreamingDataSourceV2ScanRelation", "CollectMetrics", "RebalancePartitions",
    }
)  # fmt: skip
"""Spark's names of the parts that look at one row at a time."""
STREAM_LEFT: Final = frozenset({"Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti", "ExistenceJoin"})
STREAM_RIGHT: Final = frozenset({"Inner", "Cross", "RightOuter"})


def keeps_state(rows: DataFrame) -> bool:
    """True if the plan of a streaming DataFrame must run as a stream.

    Raises:
        ConfigError: it has a subquery over the stream, which Spark cannot run.
    """
    plan = rows._jdf.queryExecution().analyzed()
    for part in _listed(plan.subqueriesAll()):
        if part.isStreaming():
            raise ConfigError(
                "a subquery reads the stream, which Spark cannot run", hint="write it as a join, or use a table"
            )
    return any(not _row_by_row(part) for part in _streaming_parts(plan))


def _streaming_parts(plan: Any) -> Iterator[Any]:
    waiting = [plan]
    while waiting:
        part = waiting.pop()
        if part.isStreaming():
            yield part
            waiting.extend(_listed(part.children()))


def _row_by_row(part: Any) -> bool:
    name = str(part.nodeName())
    children = [bool(child.isStreaming()) for child in _listed(part.children())]
    if name == "Union":
        return all(children)
    if name == "Join":
        kind = str(part.joinType().toString()).partition("(")[0]
        if children == [True, False]:
            return kind in STREAM_LEFT
        return children == [False, True] and kind in STREAM_RIGHT
    return name in ROW_BY_ROW


def _listed(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]
