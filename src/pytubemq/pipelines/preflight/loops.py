"""A pipeline that would read what it writes, as far as only a run knows it: references resolved, columns by their plan.

The invariant: nothing is written to a topic whose rows would come back as new ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError
from pytubemq.pipelines.analysis.topic_loops import AGAIN, one_cluster, option_of, read_again, remedy
from pytubemq.pipelines.file.secrets import resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pytubemq.pipelines.file.model import Pipeline, Sink

TOPIC: Final = "topic"
"""The column of a message's topic: the source makes it, and the sink goes by it."""


def check_loop(pipeline: Pipeline, sink: Sink, *, came_from: bool = False) -> None:
    """Refuse a sink into a topic that is read.

    Args:
        pipeline: whose source it is.
        sink: or the dead letters, as a sink.
        came_from: whether its rows name, as their topic, the one that they came from.

    Raises:
        ConfigError: naming the topic.
    """
    if sink.format != "tubemq":
        return
    topic = sink.topic or option_of(sink.options, TOPIC)
    if topic is not None:
        why = read_again(pipeline.source, topic, sink.master, text_of=resolve)
        if why is not None:
            raise ConfigError(
                f"sink {sink.name}: topic {resolve(topic)} {why}: what is written there {AGAIN}",
                hint=remedy(why, resolve(topic)),
            )
    elif came_from and one_cluster(pipeline.source, sink.master, text_of=resolve):
        raise ConfigError(
            f"sink {sink.name}: its rows go to the topic in their column topic, which is the one that they came from: "
            f"they {AGAIN}",
            hint="give the sink a topic, or make the column in a step",
        )


def keeps_topic(rows: DataFrame, source: DataFrame) -> bool:
    """Whether the column `topic` of some rows is the source's own, handed on as it is."""
    own = _ids(source, TOPIC)
    return bool(own & _ids(rows, TOPIC))


def _ids(rows: DataFrame, name: str) -> set[int]:
    """Spark's numbers of the columns of a name."""
    plan: Any = rows._jdf.queryExecution().analyzed()
    columns = plan.output()
    found = [columns.apply(at) for at in range(columns.size())]
    return {int(column.exprId().id()) for column in found if str(column.name()) == name}
