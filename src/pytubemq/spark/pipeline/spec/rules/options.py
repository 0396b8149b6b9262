"""Options that other parts of this package take: those of the source, of the decoders and of the TubeMQ sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.spark.pipeline.spec.faults import Fault
    from pytubemq.spark.pipeline.spec.model import Pipeline
    from pytubemq.spark.pipeline.spec.places import Places


def check(pipeline: Pipeline, places: Places) -> Iterator[Fault]:
    """Faults of options."""
    yield from ()
