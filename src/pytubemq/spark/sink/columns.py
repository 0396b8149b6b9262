"""The use that the sink makes of each column of a DataFrame, checked on the driver before anything is sent.

The invariant: every column has a use or is refused by name; a column of the wrong type is refused with the types that
it may have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError
from pytubemq.model.suggest import suggest

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from pytubemq.spark.sink.options import SinkOptions

BODY, TOPIC, TYPE, TIME, ATTRIBUTES, KEY, PARTITION = (
    "body",
    "topic",
    "msgType",
    "msgTime",
    "attributes",
    "key",
    "partition",
)
DEFAULT_ID_COLUMN: Final = "idempotencyKey"
ID_TAKES: Final = ("string", "binary", "tinyint", "smallint", "int", "bigint")
TAKES: Final = {
    BODY: ("binary", "string"),
    TOPIC: ("string",),
    TYPE: ("string",),
    TIME: ("timestamp", "timestamp_ntz", "string"),
    ATTRIBUTES: ("map<string,string>",),
    KEY: ("string", "binary"),
    PARTITION: ("int", "string"),
    DEFAULT_ID_COLUMN: ID_TAKES,
}
"""The columns and the types that each may have; another may take the place of the last one."""
_SOURCES_OWN: Final = ("brokerId", "offset", "timestamp", "messageId")
"""Columns that the source has and that a message cannot be given."""


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """At which place of a row each thing is; None: the rows have none."""

    body: int
    topic: int | None = None
    msg_type: int | None = None
    msg_time: int | None = None
    attributes: int | None = None
    key: int | None = None
    partition: int | None = None
    idempotency_key: int | None = None


def sink_columns(schema: StructType, options: SinkOptions) -> SinkColumns:
    """Find a use for each column of the rows; names are case-insensitive, as Spark's are.

    Raises:
        ConfigError: a column is missing, unknown, of the wrong type, or there twice; or idempotent mode cannot know the
            rows apart.
    """
    known = {name.lower(): name for name in TAKES if name != DEFAULT_ID_COLUMN}
    id_name = (options.idempotency_key or DEFAULT_ID_COLUMN).lower()
    if id_name in known and options.idempotency_key is not None and id_name != KEY:
        raise ConfigError(f"the column {options.idempotency_key} cannot be the idempotency key", hint="copy it to one")
    places: dict[str, int] = {}
    id_place: int | None = None
    for place, field in enumerate(schema.fields):
        lower = field.name.lower()
        if lower == id_name:
            _check_type(field.name, field.dataType, ID_TAKES)
            id_place = place
            if lower not in known:
                continue
        name = known.get(lower)
        if name is None:
            raise _unknown(field.name, known)
        if name in places:
            raise ConfigError(f"the rows have the column {name} twice", hint="drop one of them")
        _check_type(field.name, field.dataType, TAKES[name])
        places[name] = place
    _check_needed(places, id_place, options)
    return SinkColumns(
        body=places[BODY],
        topic=None if options.topic is not None else places[TOPIC],
        msg_type=None if options.msg_type is not None else places.get(TYPE),
        msg_time=places.get(TIME),
        attributes=places.get(ATTRIBUTES),
        key=places.get(KEY),
        partition=places.get(PARTITION),
        idempotency_key=id_place if options.idempotent and not options.plan_is_map_only else None,
    )


def _check_needed(places: dict[str, int], id_place: int | None, options: SinkOptions) -> None:
    if BODY not in places:
        raise ConfigError(
            "the rows have no column body",
            hint='name the body to send: .selectExpr("to_json(struct(*)) AS body")',
        )
    if options.topic is None and TOPIC not in places:
        raise ConfigError("no topic is named", hint='set .option("topic", ...), or give the rows a column topic')
    if options.idempotency_key is not None and id_place is None:
        raise ConfigError(f"the rows have no column {options.idempotency_key}, which idempotencyKey names")
    if options.encoder is not None and options.plan_is_map_only and TIME not in places:
        raise ConfigError(
            "encode with planIsMapOnly=true needs a column msgTime",
            hint="the time is in the encoded body, and a replay has to send the same body again",
        )
    if options.idempotent and id_place is None and not options.plan_is_map_only:
        raise ConfigError(
            "idempotent=true needs a column idempotencyKey, or planIsMapOnly=true",
            hint="row numbers identify duplicates only where a replay has the same rows in the same order in the same "
            "partitions, which a sink cannot see: say planIsMapOnly=true if the plan only selects, filters and maps; "
            "else give each row a key, as in concat_ws(':', topic, brokerId, partition, offset)",
        )


def _check_type(name: str, kind: DataType, takes: tuple[str, ...]) -> None:
    found = kind.simpleString()
    if found.split("(")[0].split(" collate")[0] not in takes:
        raise ConfigError(f"the column {name} is {found}", hint=f"cast it to {' or '.join(takes)}")


def _unknown(name: str, known: dict[str, str]) -> ConfigError:
    names = ", ".join(known.values())
    if name.lower() in {own.lower() for own in _SOURCES_OWN}:
        return ConfigError(f"the column {name} cannot be written: the Broker sets it", hint=f"select some of {names}")
    close = suggest(name, known.values())
    hint = f"did you mean {close}?" if close else f"the sink takes {names}; drop or rename it"
    return ConfigError(f"the sink does not take a column {name}", hint=hint)
