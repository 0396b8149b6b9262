"""Options and names of a sink that its format does not take: one table, asked by `lint` and when the sink is made.

The invariant: what the runner gives to what a sink writes with is set by nobody else, for its promise rests on that.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.errors import MessageError
from pytubemq.model.names import check_topic
from pytubemq.pipelines.file.model import SinkFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytubemq.pipelines.file.model import DeadLetter, Sink

SET_BY_RUNNER: Final[dict[SinkFormat, frozenset[str]]] = {
    SinkFormat.PARQUET: frozenset({"checkpointlocation"}),
    SinkFormat.DELTA: frozenset({"txnappid", "txnversion", "usermetadata"}),
    SinkFormat.ICEBERG: frozenset({"path"}),
    SinkFormat.TUBEMQ: frozenset({"planismaponly", "queryid", "batchid", "checkpointlocation"}),
}
"""In lower case: Spark takes upper and lower case of an option for the same."""
KEY_OF_OPTION: Final[dict[SinkFormat, dict[str, str]]] = {
    SinkFormat.PARQUET: {"path": "path"},
    SinkFormat.DELTA: {"path": "path"},
    SinkFormat.JDBC: {"url": "url", "dbtable": "table"},
    SinkFormat.KAFKA: {"topic": "topic"},
    SinkFormat.TUBEMQ: {"master": "master", "topic": "topic", "idempotencykey": "idempotency_key"},
}
"""Options that say what a key of the sink says."""
ROWS: Final = "rows"
"""The one option of the console: how many rows of a batch it prints."""
MAX_ROWS: Final = 10_000
_KAFKA_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


class Wrong(NamedTuple):
    """A value that the sink's format does not take."""

    key: str
    """Of the sink: `options.row`, `topic`."""
    message: str
    hint: str | None = None
    at_key: bool = False
    """Whether the key itself is wrong, whatever its value."""


def wrong_values(sink: Sink | DeadLetter, *, text_of: Callable[[str], str] = str) -> Iterator[Wrong]:
    """What is wrong with the options and names of a sink.

    Args:
        sink: or the dead letters.
        text_of: gives a text without its references; one that still has any is skipped.
    """
    yield from _options(sink)
    if sink.format is SinkFormat.CONSOLE:
        yield from _of_console(sink, text_of)
    if sink.format is SinkFormat.KAFKA:
        yield from _acks(sink, text_of)
    yield from _names(sink, text_of)


def _options(sink: Sink | DeadLetter) -> Iterator[Wrong]:
    """Options that are not the file's to set, or stand there twice."""
    seen: dict[str, str] = {}
    for name in sink.options:
        lower, key = name.lower(), f"options.{name}"
        if lower in seen:
            text = f"is {seen[lower]} again: upper and lower case are the same"
            yield Wrong(key, text, "keep one of the two", at_key=True)
        elif lower in SET_BY_RUNNER.get(sink.format, ()):
            yield Wrong(key, "is set by the runner", "delete it", at_key=True)
        elif own := KEY_OF_OPTION.get(sink.format, {}).get(lower):
            yield Wrong(key, "has a key of its own", f"write it as the key {own}", at_key=True)
        seen.setdefault(lower, name)


def _of_console(sink: Sink | DeadLetter, text_of: Callable[[str], str]) -> Iterator[Wrong]:
    for name, value in sink.options.items():
        if name.lower() != ROWS:
            near = difflib.get_close_matches(name.lower(), [ROWS], 1)
            hint = f"did you mean {ROWS}?" if near else f"there is only {ROWS}"
            yield Wrong(f"options.{name}", "is no option of the console", hint, at_key=True)
            continue
        text = text_of(value)
        number = int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0
        if "${" not in text and not 0 < number <= MAX_ROWS:
            yield Wrong(f"options.{name}", f"{text!r} is not a number from 1 to {MAX_ROWS}")


def _acks(sink: Sink | DeadLetter, text_of: Callable[[str], str]) -> Iterator[Wrong]:
    """A producer that does not wait for the broker."""
    for name, value in sink.options.items():
        if name.lower() == "kafka.acks" and text_of(value).strip() == "0":
            text = "0 waits for no broker, so rows are lost without a word"
            yield Wrong(f"options.{name}", text, "delete it: then all replicas in sync answer; or take 1")


def _names(sink: Sink | DeadLetter, text_of: Callable[[str], str]) -> Iterator[Wrong]:
    """Topics and tables that cannot be called so."""
    topic, table = text_of(sink.topic or ""), text_of(sink.table or "")
    if sink.format is SinkFormat.TUBEMQ and topic and "${" not in topic:
        try:
            check_topic(topic)
        except MessageError as error:
            yield Wrong("topic", error.message, error.hint)
    legal = _KAFKA_TOPIC.fullmatch(topic) is not None and topic not in {".", ".."}
    if sink.format is SinkFormat.KAFKA and topic and "${" not in topic and not legal:
        hint = "use letters, digits, '.', _ or -, at most 249"
        yield Wrong("topic", f"{topic!r} cannot be the name of a Kafka topic", hint)
    if sink.format is SinkFormat.ICEBERG and table and "${" not in table and not all(table.partition(".")):
        yield Wrong("table", f"{table!r} names no catalog", "write catalog.database.table")
