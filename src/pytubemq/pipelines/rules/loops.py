"""Sinks and dead letters in a topic that the pipeline reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.analysis.topic_loops import AGAIN, read_again, remedy
from pytubemq.pipelines.file.faults import FaultCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.pipelines.file.faults import Fault
    from pytubemq.pipelines.file.model import Pipeline
    from pytubemq.pipelines.file.places import Places


def check(pipeline: Pipeline, places: Places) -> Iterator[Fault]:
    """A fault for each; references are looked at by the run."""
    written = [
        (f"sinks[{index}].topic", "rows", sink.topic, sink.master)
        for index, sink in enumerate(pipeline.sinks)
        if sink.format == "tubemq"
    ]
    if pipeline.dead_letter is not None:
        written.append(("dead_letter.topic", "records", pipeline.dead_letter.topic, pipeline.dead_letter.master))
    for path, what, topic, master in written:
        why = read_again(pipeline.source, topic, master, text_of=_plain)
        if why is not None:
            text = f"{why}: its {what} {AGAIN}"
            yield places.fault(FaultCode.CONTRADICTION, path, text, remedy(why, topic or ""))


def _plain(text: str) -> str | None:
    return None if "${" in text else text
