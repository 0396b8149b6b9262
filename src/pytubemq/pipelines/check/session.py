"""Spark sessions for checks on this machine, whatever the file says."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from pytubemq.pipelines.file.model import Pipeline

LOCAL: Final = "local[2]"
_SMALL: Final = {"spark.sql.shuffle.partitions": "1", "spark.ui.enabled": "false"}


@contextlib.contextmanager
def local_session(pipeline: Pipeline, *, with_packages: bool) -> Iterator[SparkSession]:
    """Provide a session with the file's settings on this machine; stop it at the end if it was made here.

    Args:
        pipeline: whose settings count.
        with_packages: True if jars and packages are fetched, as tables at rest may need them.

    Raises:
        ConfigError: a setting is refused.
        MissingExtraError: pyspark is not installed.
    """
    from pytubemq.pipelines.run.session import open_session, present_session

    settings = replace(pipeline.spark, master=LOCAL, conf={**pipeline.spark.conf, **_SMALL})
    formats = {sink.format for sink in pipeline.sinks} if with_packages else set()
    if not with_packages:
        settings = replace(settings, packages=(), jars=())
    active = present_session()
    session = active or open_session(replace(pipeline, spark=settings), formats=formats)
    try:
        yield session
    finally:
        if active is None:
            session.stop()
