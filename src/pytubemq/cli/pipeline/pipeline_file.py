"""A pipeline file as the commands that work on a cluster need it: checked, with its cluster and its state named.

The invariant: what is handed to Spark names everything itself, so that nothing depends on where a command was typed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytubemq.cli.pipeline.options import on_path
from pytubemq.cli.target import masters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.cli.options import GlobalOptions
    from pytubemq.pipelines.file.model import Pipeline
    from pytubemq.pipelines.state.files import Files

TUBEMQ = "tubemq"


def open_pipeline(options: GlobalOptions, file: str, variables: Mapping[str, str]) -> Pipeline:
    """Return the pipeline of a file; the Masters are those of the profile where the file names none.

    Steps can import modules beside the file from now on.

    Raises:
        PipelineFileError: the file has errors.
        ConfigError: its state refers to something that is not there.
    """
    from pytubemq.pipelines import load_checked
    from pytubemq.pipelines.file.reading.paths import beside
    from pytubemq.pipelines.file.texts import hide_secrets
    from pytubemq.pipelines.state.place import state_location

    pipeline = beside(load_checked(file, variables=variables).require(), file)
    hide_secrets(pipeline)
    if pipeline.source.format == TUBEMQ and not pipeline.source.master:
        pipeline = replace(pipeline, source=replace(pipeline.source, master=masters(options, None)))

    pipeline = pipeline.with_masters(otherwise=lambda: masters(options, None))
    if any(step.python for step in pipeline.steps):
        on_path(file)
    return replace(pipeline, state=state_location(pipeline, file))


def files_of(place: str, variables: Mapping[str, str]) -> Files:
    """Return the state of a pipeline, by its file, or by the state directory itself.

    Raises:
        NotFoundError: it has not run yet.
        PipelineFileError: the file has errors.
    """
    from pytubemq.pipelines.state.files import state_files

    if "://" in place or Path(place).is_dir():
        return state_files(place)
    from pytubemq.pipelines import load_checked
    from pytubemq.pipelines.state.place import state_location

    return state_files(state_location(load_checked(place, variables=variables).require(), place))
