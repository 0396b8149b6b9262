"""A pipeline file as the commands that work on a cluster need it: with the profile's Masters where it names none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.cli.target import masters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.cli.options import GlobalOptions
    from pytubemq.pipelines import Pipeline


def open_file(options: GlobalOptions, file: str, variables: Mapping[str, str]) -> Pipeline:
    """Return the pipeline of a file; the Masters are those of the profile where the file names none.

    Raises:
        PipelineFileError: the file has errors.
        ConfigError: its state refers to something that is not there.
    """
    from pytubemq.pipelines import open_pipeline

    return open_pipeline(file, variables=variables, master=lambda: masters(options, None))
