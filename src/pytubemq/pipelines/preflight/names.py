"""Names of steps, tables and sinks of a pipeline, which may be made in Python, and so was not linted.

The invariant: a name stands for one thing, in the ledger, in Spark's views and in the names of files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError
from pytubemq.pipelines.file.model import DEAD_LETTER
from pytubemq.pipelines.frames.steps import INPUT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.pipelines.file.model import Pipeline

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def check_names(pipeline: Pipeline) -> None:
    """Refuse names that two things would share.

    Raises:
        ConfigError: naming it; case does not tell two names apart, as in Spark.
    """
    taken = {INPUT: "the source's rows"}
    _each_once((("table", table.name) for table in pipeline.tables), taken)
    taken[DEAD_LETTER] = "the rejected records"
    _each_once((("step", step.name) for step in pipeline.steps), taken)
    _each_once((("sink", sink.name) for sink in pipeline.sinks), {DEAD_LETTER: "the rejected records"})


def _each_once(named: Iterable[tuple[str, str]], taken: dict[str, str]) -> None:
    for kind, name in named:
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{name!r} cannot be the name of a {kind}",
                hint="use letters, digits and _, at most 64, and no digit at the beginning",
            )
        if name.lower() in taken:
            raise ConfigError(
                f"{kind} {name}: {name.lower()} is the name of {taken[name.lower()]} already",
                hint="give each its own name; case is ignored",
            )
        taken[name.lower()] = f"another {kind}" if kind == "sink" else f"a {kind}"
