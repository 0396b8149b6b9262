"""A kind of sink as a value: all that can be known of it without Spark.

The invariant: neither this module nor a kind loads Spark, so that `lint`, `init` and the docs can ask a kind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pytubemq.pipelines.file.faults import FaultCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytubemq.pipelines.file.key import Key
    from pytubemq.pipelines.file.model import Guarantee, Sink


class Promise(NamedTuple):
    """A guarantee for each row, and its reason."""

    guarantee: Guarantee
    why: str
    needs: str = ""
    """The condition under which it holds; nothing beyond the pipeline's own state if empty."""


class Intake(NamedTuple):
    """Facts that decide about a promise beside the sink itself: where its rows come from and go to."""

    row_by_row: bool = True
    """Each row is made of one message of a topic, in the order of the messages."""
    drops_repeats: bool = True
    """The Brokers that are written to drop what they have."""


class Wrong(NamedTuple):
    """A key or an option that a kind of sink does not take."""

    key: str
    """The key, as `options.row`, `topic`; empty for the sink as a whole."""
    message: str
    hint: str | None = None
    at_key: bool = False
    """The key itself is wrong, whatever its value."""
    code: FaultCode = FaultCode.BAD_VALUE


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterKind:
    """A kind of sink as the place of dead letters."""

    keys: tuple[Key, ...] = ()
    """Keys of the section `dead_letter`, beside those of every format."""
    needs: tuple[tuple[str, ...], ...] = ()
    """One of each group must be there."""
    beside_state: bool = False
    """Without a path they are kept beside the state."""
    chosen_by: str = ""
    """The key of `dead_letter` that stands for this format where none is named."""
    own_writer: bool = False
    """Their rows need a writer of their own: `dead_letters` in the kind's folder."""


def _only_case(sink: Sink, intake: Intake) -> str:
    return ""


def _nothing_wrong(sink: Sink) -> Iterator[Wrong]:
    return iter(())


def _never(sink: Sink) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkKind:
    """A kind of sink. Its writer is `make_writer` in the module `writer` of the same folder."""

    name: str
    """The word of `format`."""
    promises: Mapping[str, Promise]
    """Promises by case, in the order of the docs; the case of a kind that has only one is empty."""
    case: Callable[[Sink, Intake], str] = _only_case
    """Decides the case of a sink."""
    keys: tuple[Key, ...] = ()
    """Beside name, format, input, guarantee and options. Their texts go on after "Of NAME: ..."."""
    needs: tuple[tuple[str, ...], ...] = ()
    """One of each group of keys must be there."""
    wrong: Callable[[Sink], Iterator[Wrong]] = _nothing_wrong
    """Yields what is wrong with keys and options beyond the fields here; skips a text that holds a reference."""
    set_by_runner: frozenset[str] = frozenset()
    """Options that nobody else may set, in lower case: Spark takes upper and lower case for the same."""
    key_of_option: Mapping[str, str] = field(default_factory=dict)
    """Options, in lower case, that say what a key of the sink says."""
    packages: tuple[str, ...] = ()
    """Maven coordinates of what Spark needs for it, in a file to begin with."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the Spark session, where the runner starts it."""
    template: str
    """The sections of a file to begin with, with `{name}` for the pipeline's and `{packages}`; its sink is called
    `lake`."""
    dead_letters: DeadLetterKind | None = None
    """Its use for dead letters; None if they cannot go there."""
    by_number: Callable[[Sink], bool] = _never
    """True if a sink knows rows by their number in the batch, and so needs the same rows when a batch is repeated."""
    is_shared: bool = False
    """Several sinks may write to one place."""
    has_upsert: bool = False
    """With `keys` a row replaces the one that has the same keys."""
    again: str = "rows are added; existing ones stay, so there may be duplicates"
    """The effect of writing rows again, as a backfill reports it."""

    def key(self, name: str) -> Key | None:
        """Return one of its own keys."""
        return next((key for key in self.keys if key.name == name), None)
