"""Names of the topics that are read; the kind of sink checks those written to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import MessageError
from pytubemq.model.names import check_topic
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.FILE, sharper=Need.VALUES)
def check(context: Context) -> Faults:
    """Report names that no topic can have."""
    source = context.pipeline.source
    if source.format == "tubemq":
        for index, topic in enumerate(source.topics):
            path = "source.topic" if "source.topic" in context.places.by_path else f"source.topics[{index}]"
            yield from _topic(context, topic, path)


def _topic(context: Context, topic: str, path: str) -> Faults:
    name = context.text(topic)
    try:
        if name is not None:
            check_topic(name)
    except MessageError as error:
        yield context.fault(FaultCode.BAD_VALUE, path, error.message, error.hint)
