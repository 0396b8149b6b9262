"""A pipeline file made ready for a cluster, and the state directory that a file or a path names.

The invariant: a pipeline opened here names everything itself (paths, Masters, state), so that nothing depends on where
a command was typed.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytubemq.pipelines.file.cluster_keys import without_user
from pytubemq.pipelines.file.texts import hide_secrets
from pytubemq.pipelines.rules.lint import read
from pytubemq.pipelines.state.files import state_files
from pytubemq.pipelines.state.state_location import state_location

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytubemq.pipelines.file.model import Pipeline
    from pytubemq.pipelines.state.files import StateFiles


def open_pipeline(
    file: str | Path,
    *,
    variables: Mapping[str, str] | None = None,
    master: str | Callable[[], str] | None = None,
) -> Pipeline:
    """Return the pipeline of a file, ready to run. Steps can import modules beside the file from now on.

    Args:
        file: the pipeline file, in YAML or TOML.
        variables: values for `${var:name}` in it.
        master: the Masters for a source, sink or dead-letter topic that names none; a function is called only if there
            is one.

    Raises:
        PipelineFileError: the file has errors.
        ConfigError: its state refers to something that does not exist.
    """
    pipeline = read(file, variables=variables)
    hide_secrets(pipeline)

    def named() -> str | None:
        return master() if callable(master) else master

    if pipeline.source.format == "tubemq" and not pipeline.source.master:
        found = named()
        if found and pipeline.source.user:
            found = without_user(found)  # the file's own counts
        pipeline = replace(pipeline, source=replace(pipeline.source, master=found))
    pipeline = pipeline.with_masters(otherwise=named)
    if any(step.python for step in pipeline.steps):
        let_steps_import(file)
    return replace(pipeline, state=state_location(pipeline, file))


def open_state(place: str, *, variables: Mapping[str, str] | None = None) -> StateFiles:
    """Return the state of a pipeline, by its file or by the state directory itself.

    Raises:
        NotFoundError: it has not run yet.
        PipelineFileError: the file has errors.
    """
    if "://" in place or Path(place).is_dir():
        return state_files(place)
    return state_files(state_location(read(place, variables=variables), place))


def let_steps_import(file: str | Path) -> None:
    """Let steps import modules beside the file, here and in the processes that Spark starts from here."""
    directory = str(Path(file).absolute().parent)
    if directory not in sys.path[:1]:
        sys.path.insert(0, directory)
    known = os.environ.get("PYTHONPATH", "")
    if directory not in known.split(os.pathsep)[:1]:
        os.environ["PYTHONPATH"] = os.pathsep.join(part for part in (directory, known) if part)
