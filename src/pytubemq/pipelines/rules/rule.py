"""One rule on pipelines: what it needs to see, and the function that yields its faults.

The invariant: a rule changes nothing, and where it cannot know it reports nothing; so the same rule can check a
file alone and again before a run, which sees more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import TYPE_CHECKING, TypeAlias

from pytubemq.errors import ConfigError
from pytubemq.pipelines.file.faults import Fault, FaultCode
from pytubemq.pipelines.file.secrets import resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pytubemq.errors import TubeError
    from pytubemq.pipelines.file.document import Mark
    from pytubemq.pipelines.file.model import Pipeline
    from pytubemq.pipelines.file.source_positions import Places
    from pytubemq.pipelines.state.files import StateFiles

Faults: TypeAlias = Iterator[Fault]
"""The faults of one rule."""


class Need(Flag):
    """The things that a rule looks at, and that a command can give it."""

    NOTHING = 0
    FILE = auto()
    """The pipeline as its file says it."""
    VALUES = auto()
    """The values of references on this machine."""
    PROGRESS = auto()
    """The state directory, which is read and never written: `Context.state`."""
    CLUSTER = auto()
    """The Masters that the file names may be asked."""
    SESSION = auto()
    """The steps as Spark compiled them: `Context.compiled`."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """The steps as Spark compiled them."""

    session: SparkSession
    schemas: Mapping[str, StructType] = field(default_factory=dict)
    """By step, its columns."""
    source: DataFrame | None = None
    """The source's rows as a stream; None where none was opened."""
    streams: Mapping[str, DataFrame] = field(default_factory=dict)
    """By step, its rows as a stream."""
    stateful: frozenset[str] = frozenset()
    """The steps that keep state."""
    feeds: Mapping[str, str] = field(default_factory=dict)
    """By sink, the query that is to feed it."""


@dataclass(frozen=True, slots=True)
class Context:
    """A pipeline, and how much of its surroundings a command can see."""

    pipeline: Pipeline
    places: Places
    sees: Need = Need.FILE
    state: StateFiles | None = None
    compiled: Compiled | None = None
    apart: str | None = None
    """The run as `a backfill`, if it is one over a part of the pipeline's rows."""

    def text(self, text: str) -> str | None:
        """Resolve a text's references; None where their values are not known."""
        if "${" not in text:
            return text
        if Need.VALUES not in self.sees:
            return None
        try:
            return resolve(text)
        except ConfigError:
            return None

    def known(self, text: str) -> str:
        """Resolve a text's references as `text`, but keep them where their values are not known."""
        resolved = self.text(text)
        return text if resolved is None else resolved

    def fault(
        self, code: FaultCode, path: str, message: str, hint: str | None = None, *, at: Mark | None = None,
        at_key: bool = False, cause: TubeError | None = None,
    ) -> Fault:  # fmt: skip
        """Create a fault of a path; `cause` is what a run raises for it, if that is no plain `ConfigError`."""
        return self.places.fault(code, path, message, hint, at=at, at_key=at_key, cause=cause)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; `rule` makes it of a function."""

    check: Callable[[Context], Faults]
    needs: Need
    """Without all of this it is not asked."""
    sharper: Need
    """With any of this it finds more."""

    def __call__(self, context: Context) -> Faults:
        """Yield the faults of a pipeline."""
        return self.check(context)

    def has_news(self, context: Context, already: Need) -> bool:
        """True if the rule can be asked, and sees more than when it was asked with `already`."""
        return self.needs in context.sees and (self.needs | self.sharper) & context.sees not in already


def rule(needs: Need, *, sharper: Need = Need.NOTHING) -> Callable[[Callable[[Context], Faults]], Rule]:
    """Make the decorated function a rule, which needs to see this."""
    return lambda check: Rule(check, needs, sharper)
