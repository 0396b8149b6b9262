"""The kind of the TubeMQ sink: a topic of a TubeMQ cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.errors import MessageError
from pytubemq.model.names import check_topic
from pytubemq.pipelines.analysis.refused_options import refused_options
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.key import Key, Kind
from pytubemq.pipelines.file.model import Guarantee
from pytubemq.pipelines.file.sink_kind import DeadLetterKind, Promise, SinkKind, Wrong
from pytubemq.pipelines.sinks.object_stores import wrong_path
from pytubemq.pipelines.sinks.tubemq.numbering import IDEMPOTENT, is_by_number, is_idempotent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytubemq.pipelines.file.model import Sink
    from pytubemq.pipelines.file.sink_kind import Intake

_ANYWHERE: Final = "127.0.0.1:8715"
_MASTER: Final = Key("master", Kind.TEXT, "", default="the source's")
_USER: Final = (
    Key("user", Kind.TEXT, "the user as which the topic is written", default="the source's with the source's `master`"),
    Key("secret_file", Kind.TEXT, "the file with that user's secret, on the driver", default="needed with `user`"),
)
_SAME_ROWS: Final = (
    "steps that give the same rows each time (no rand(), uuid(), current_timestamp(); Python functions likewise)"
)
_MAP_ONLY: Final = "by number, if steps handle each row separately"
_IN_ORDER: Final = "by number, after windows and aggregates, or with a source other than topics"
_KEY_COLUMN: Final = "with idempotency_key"
_REPEATED: Final = "by number, to Java Brokers or Brokers of unknown kind"
_NOT_IDEMPOTENT: Final = "with options.idempotent: false"


def _case(sink: Sink, intake: Intake) -> str:
    if not is_idempotent(sink):
        return _NOT_IDEMPOTENT
    if sink.idempotency_key is not None:
        return _KEY_COLUMN
    if not intake.drops_repeats:
        return _REPEATED
    return _MAP_ONLY if intake.row_by_row else _IN_ORDER


def _wrong(sink: Sink) -> Iterator[Wrong]:
    topic = sink.topic or ""
    if topic and "${" not in topic:
        try:
            check_topic(topic)
        except MessageError as error:
            yield Wrong("topic", error.message, error.hint)
    yield from wrong_path(sink.path)  # of dead letters that are too long for a message
    yield from _wrong_options(sink.options)


def _wrong_options(options: Mapping[str, str]) -> Iterator[Wrong]:
    """Ask the sink of this package, as it refuses them when a batch is written."""
    from pytubemq.spark.sink.option_table import OPTIONS  # few files need it
    from pytubemq.spark.sink.options import parse_options

    known = {option.name.lower() for option in OPTIONS}
    passed = {
        name: value
        for name, value in options.items()
        if (name.lower() not in known or "${" not in value)
        and not (name.lower() == IDEMPOTENT and value.lower() == "true")  # as without it; the runner adds what it needs
    }

    def ask(options: Mapping[str, str]) -> None:
        parse_options({"master": _ANYWHERE, **options}, streaming=False)

    for error, option in refused_options(ask, passed):
        key = "" if option is None else f"options.{option}"
        yield Wrong(key, error.message, error.hint, at_key=option is not None, code=FaultCode.SINK_OPTION)


KIND: Final = SinkKind(
    name="tubemq",
    keys=(
        Key(
            "topic", Kind.TEXT,
            "the topic of rows that have no column `topic`; without a column `body` they go as JSON",
        ),
        _MASTER,
        *_USER,
        Key("idempotency_key", Kind.TEXT, "a column by which a row that was sent twice is recognized"),
    ),
    promises={
        _MAP_ONLY: Promise(
            Guarantee.EXACTLY_ONCE,
            "rows are numbered by batch and partition, and the Broker drops numbers that it has already",
            f"pytubemq Brokers; {_SAME_ROWS}",
        ),
        _IN_ORDER: Promise(
            Guarantee.EXACTLY_ONCE,
            "rows are sorted by all their columns and numbered, and the Broker drops numbers that it has already",
            f"pytubemq Brokers; {_SAME_ROWS}",
        ),
        _KEY_COLUMN: Promise(
            Guarantee.AT_LEAST_ONCE,
            "at least once in the topic, exactly once for readers with dedup=true: a repeated batch sends "
            "its rows again, with the same keys",
        ),
        _REPEATED: Promise(
            Guarantee.AT_LEAST_ONCE,
            "at least once in the topic, exactly once for readers with dedup=true: a Java Broker stores "
            "duplicates",
            "exactly once at pytubemq Brokers",
        ),
        _NOT_IDEMPOTENT: Promise(Guarantee.AT_LEAST_ONCE, "a replay sends the batch again"),
    },
    case=_case,
    wrong=_wrong,
    set_by_runner=frozenset({"planismaponly", "queryid", "batchid", "checkpointlocation"}),
    key_of_option={
        "master": "master", "user": "user", "secretfile": "secret_file", "topic": "topic",
        "idempotencykey": "idempotency_key",
    },
    by_number=is_by_number,
    is_shared=True,
    again="rows are sent again",
    dead_letters=DeadLetterKind(
        keys=(
            Key(
                "path", Kind.TEXT, "where dead letters go that are too long for a message",
                default="`<state>/dead_letter`",
            ),
            Key("topic", Kind.TEXT, ""),
            _MASTER,
            *_USER,
        ),
        needs=(("topic",),),
        beside_state=True,
        chosen_by="topic",
        own_writer=True,
    ),
    template="""
sinks:
  - name: lake
    format: tubemq
    topic: {name}_paid                     # rows go as JSON, unless they have a column `body`
    guarantee: exactly_once
""",
)  # fmt: skip
