"""The place of a pipeline's state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.file.secrets import resolve

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import Pipeline

DIRECTORY: Final = ".pytubemq"


def state_location(pipeline: Pipeline, file: str | Path) -> str:
    """Return the path or URI of the state: as the pipeline says, with paths and the default relative to its file.

    Raises:
        ConfigError: what the pipeline says refers to something that is not there.
    """
    beside = Path(file).absolute().parent
    if pipeline.state is None:
        return str(beside / DIRECTORY / pipeline.name)
    said = resolve(pipeline.state)
    return said if "://" in said else str(beside / said)
