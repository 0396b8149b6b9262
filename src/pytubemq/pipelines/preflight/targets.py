"""Places of a pipeline's sinks, which may be made in Python or name one place by two references: lint saw neither.

The invariant: no two sinks of a run write to one place, for what one of them has is then taken for the other's.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytubemq.errors import ConfigError
from pytubemq.pipelines.analysis.sink_targets import target_of
from pytubemq.pipelines.file.secrets import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.pipelines.file.model import Sink


def check_targets(sinks: Iterable[Sink]) -> None:
    """Refuse two sinks with one place; the dead letters are one of them.

    Raises:
        ConfigError: naming both.
    """
    taken: dict[tuple[str, ...], str] = {}
    for sink in sinks:
        place = target_of(sink, text_of=resolve, local=os.path.realpath)
        if place is None:
            continue
        if place in taken:
            raise ConfigError(
                f"sink {sink.name}: {sink.path or sink.table} is where the sink {taken[place]} writes",
                hint="give each its own target; rows of two steps go to one place by UNION ALL in a step",
            )
        taken[place] = sink.name
