"""Brokers that answer a pipeline's reads: whether a Java Broker is among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import TubeError
from pytubemq.pipelines.frames.source import source_options

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import Pipeline


def reads_java(pipeline: Pipeline) -> bool | None:
    """True if a Java Broker has a partition of the pipeline's topics; None if the cluster did not say."""
    from pytubemq.spark.source.options import parse_options
    from pytubemq.spark.source.planning.survey import Survey

    if pipeline.source.format != "tubemq":
        return False
    survey = Survey(parse_options(source_options(pipeline)))
    try:
        return survey.any_java()
    except TubeError:
        return None
    finally:
        survey.cluster.forget()


def finds_java(pipeline: Pipeline) -> bool:
    """True if a Java Broker has a partition of the pipeline's topics; Brokers that are away are waited for.

    Raises:
        TubeError: the cluster cannot be reached, or a topic does not exist.
    """
    from pytubemq.spark.source.options import parse_options
    from pytubemq.spark.source.planning.plan import BrokerKind
    from pytubemq.spark.source.planning.survey import Survey

    survey = Survey(parse_options(source_options(pipeline)))
    try:
        return BrokerKind.JAVA in survey.kinds().values()
    finally:
        survey.cluster.forget()
