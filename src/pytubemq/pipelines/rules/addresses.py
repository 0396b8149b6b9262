"""The addresses of Masters that a file names, as far as they stand in it and not by reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import FormatError
from pytubemq.model.ids import DEFAULT_MASTER_PORT, Address
from pytubemq.pipelines.file.faults import FaultCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.pipelines.file.faults import Fault
    from pytubemq.pipelines.file.model import Pipeline
    from pytubemq.pipelines.file.places import Places


def check(pipeline: Pipeline, places: Places) -> Iterator[Fault]:
    """Those that are none."""
    named = {"source.master": pipeline.source.master}
    named |= {f"sinks[{index}].master": sink.master for index, sink in enumerate(pipeline.sinks)}
    if pipeline.dead_letter is not None:
        named["dead_letter.master"] = pipeline.dead_letter.master
    for path, text in named.items():
        for part in (text or "").split(","):
            if part.strip() and "${" not in part:
                yield from _address(part.strip(), path, places)


def _address(text: str, path: str, places: Places) -> Iterator[Fault]:
    try:
        Address.parse(text, default_port=DEFAULT_MASTER_PORT)
    except FormatError as error:
        yield places.fault(FaultCode.BAD_VALUE, path, error.message, "write host:port, as 127.0.0.1:8715")
