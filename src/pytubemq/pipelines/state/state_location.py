"""The place of a pipeline's state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytubemq.pipelines.file.secrets import resolve

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import Pipeline


def state_location(pipeline: Pipeline, file: str | Path | None = None) -> str:
    """Return the path or URI of the state: as the pipeline says, with paths and the default relative to its file.

    Args:
        pipeline: whose state it is.
        file: the one that it was read from; None if there is none, and paths are relative to the working directory.

    Raises:
        ConfigError: what the pipeline says refers to something that is not there.
    """
    said = resolve(pipeline.state_or_default)
    directory = Path.cwd() if file is None else Path(file).absolute().parent
    return said if "://" in said else str(directory / said)
