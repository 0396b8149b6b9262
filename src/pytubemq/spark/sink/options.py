"""The sink's options: text in, one frozen value out, or one error that names the option and what it takes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from pytubemq.core.sequences import MAX_EPOCH
from pytubemq.errors import ConfigError, FormatError, MessageError
from pytubemq.model import units
from pytubemq.model.limits import MIB
from pytubemq.model.names import check_topic
from pytubemq.model.suggest import suggest
from pytubemq.spark.cluster_option import SECRETS, SECRETS_HINT, cluster_address
from pytubemq.spark.sink.encode import inlong_encoder
from pytubemq.spark.sink.option_table import OPTIONS
from pytubemq.wire.text.attributes import format_attributes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import tzinfo

    from pytubemq.model.cluster_address import ClusterAddress
    from pytubemq.spark.sink.encode import InLongEncoder
    from pytubemq.spark.sink.option_table import SinkOption

SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname"})
"""Options of `writeStream` that Spark hands over with ours."""
_TABLE: Final = {option.name.lower(): option for option in OPTIONS}
_MAX_QUERY_ID_CHARS: Final = 1_000


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a writer, parsed."""

    masters: ClusterAddress
    topic: str | None
    msg_type: str | None
    time_zone: tzinfo
    delivery_timeout_s: float
    max_buffer_bytes: int
    idempotent: bool
    idempotency_key: str | None
    plan_is_map_only: bool
    query_id: str | None
    batch_id: int
    encoder: InLongEncoder | None = None
    checkpoint_location: str | None = None


def parse_options(options: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """Check and read the options of `format("tubemq")` of a write; names are case-insensitive.

    Raises:
        ConfigError: an option is unknown, missing, contradicts another, or has a value that it does not take.
    """
    given, encode_options = _by_known_name(options, streaming=streaming)
    found = SinkOptions(
        masters=_masters(given),
        topic=_topic(given.get("topic")),
        msg_type=_msg_type(given.get("msgType")),
        time_zone=_time_zone(given.get("timeZone", "UTC")),
        delivery_timeout_s=_seconds("deliveryTimeout", given.get("deliveryTimeout", "60s"), 1.0, 3600.0),
        max_buffer_bytes=_size_bytes("maxBufferBytes", given.get("maxBufferBytes", "64MiB"), 4 * MIB, 1024 * MIB),
        idempotent=_flag("idempotent", given.get("idempotent", "false")),
        idempotency_key=given.get("idempotencyKey"),
        plan_is_map_only=_flag("planIsMapOnly", given.get("planIsMapOnly", "false")),
        query_id=_query_id(given.get("queryId")),
        batch_id=_number("batchId", given.get("batchId", "0"), 0, MAX_EPOCH),
        encoder=_encoder(given.get("encode"), encode_options),
        checkpoint_location=given.get("checkpointLocation"),
    )
    _check_together(given, found)
    if streaming and found.idempotent and found.topic is not None:
        _check_checkpoint(options)
    if found.encoder is not None and found.msg_type is None:
        _msg_type(found.encoder.stream_id)
    return found


def _check_together(given: Mapping[str, str], options: SinkOptions) -> None:
    for name in ("idempotencyKey", "planIsMapOnly", "queryId", "batchId"):
        if name in given and not options.idempotent:
            raise ConfigError(f"option {name} needs idempotent", hint="set idempotent=true, or leave it out")
    if options.idempotency_key is not None and options.plan_is_map_only:
        raise ConfigError(
            "options idempotencyKey and planIsMapOnly contradict each other",
            hint="rows are identified by their key or by their number: give one of the two",
        )
    if "checkpointLocation" in given and "batchId" not in given:
        raise ConfigError(
            "option checkpointLocation needs batchId",
            hint="it is for writes in foreachBatch: give queryId and batchId, too, or leave it out",
        )
    if "batchId" in given and options.query_id is None:
        raise ConfigError("option batchId needs queryId", hint="name the series with queryId, too")


def _check_checkpoint(options: Mapping[str, str]) -> None:
    """Refuse a stream without the option: Spark does not hand over a checkpoint from the session's settings."""
    if not any(name.lower() == "checkpointlocation" and value.strip() for name, value in options.items()):
        raise ConfigError(
            "idempotent needs the option checkpointLocation: the topic's partitions are kept in the "
            "checkpoint, so that a repeated batch goes to those of its first try",
            hint='name the query\'s checkpoint by .option("checkpointLocation", ...); '
            "spark.sql.streaming.checkpointLocation alone is not handed to the sink",
        )


def _by_known_name(options: Mapping[str, str], *, streaming: bool) -> tuple[dict[str, str], dict[str, str]]:
    given: dict[str, str] = {}
    encode: dict[str, str] = {}
    for name, value in options.items():
        lower = name.lower()
        if streaming and lower in SPARKS_OWN:
            continue
        if lower.startswith("encode."):
            encode[lower.removeprefix("encode.")] = value
            continue
        option = _TABLE.get(lower)
        if option is None or option.name.endswith(".*"):
            raise _unknown(name)
        if streaming and option.where == "batch":
            raise ConfigError(f"{option.name} is an option of df.write", hint="leave it out: a stream has its own")
        given[option.name] = value
    return given, encode


def _unknown(name: str) -> ConfigError:
    close = suggest(name, (option.name for option in OPTIONS if not option.name.endswith(".*")))
    names = ", ".join(option.name for option in OPTIONS)
    hint = f"did you mean {close}?" if close else f"the options are {names}"
    if name.lower() in SECRETS:
        hint = SECRETS_HINT
    if name.lower() == "path":
        hint = 'name the topic as an option, .option("topic", ...), and call save() or start() without a path'
    return ConfigError(f'writing to format("tubemq") has no option {name!r}', hint=hint)


def _takes(name: str) -> str:
    option: SinkOption = _TABLE[name.lower()]
    return option.takes


def _bad(name: str, value: str) -> ConfigError:
    return ConfigError(f"option {name} = {value!r} is not valid", hint=f"{name} takes {_takes(name)}")


def _masters(given: Mapping[str, str]) -> ClusterAddress:
    text = given.get("master")
    if not text or not text.strip():
        raise ConfigError('format("tubemq") needs the option master', hint=f"master takes {_takes('master')}")
    try:
        return cluster_address(text, given)
    except FormatError as error:
        raise _bad("master", text) from error


def _topic(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return check_topic(text.strip())
    except MessageError as error:
        raise _bad("topic", text) from error


def _msg_type(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        format_attributes(None, msg_type=text, msg_time=None)
    except MessageError as error:
        raise _bad("msgType", text) from error
    return text.strip() or None


def _time_zone(text: str) -> tzinfo:
    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError) as error:
        raise _bad("timeZone", text) from error


def _seconds(name: str, text: str, least: float, most: float) -> float:
    seconds = units.duration_s(text)
    if seconds is None or not least <= seconds <= most:
        raise _bad(name, text)
    return seconds


def _size_bytes(name: str, text: str, least: int, most: int) -> int:
    size = units.size_bytes(text)
    if size is None or not least <= size <= most:
        raise _bad(name, text)
    return size


def _number(name: str, text: str, least: int, most: int) -> int:
    number = int(text) if re.fullmatch(r"[0-9]{1,18}", text.strip()) else -1
    if not least <= number <= most:
        raise _bad(name, text)
    return number


def _flag(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise _bad(name, text)
    return word == "true"


def _query_id(text: str | None) -> str | None:
    if text is not None and not 0 < len(text.strip()) <= _MAX_QUERY_ID_CHARS:
        raise _bad("queryId", text[:80])
    return text


def _encoder(text: str | None, options: Mapping[str, str]) -> InLongEncoder | None:
    if text is None:
        for name in options:
            hint = f"encode takes {_takes('encode')}"
            raise ConfigError(f"option encode.{name} needs encode", hint=hint)
        return None
    if text.strip().lower() != "inlong-msg":
        raise _bad("encode", text)
    return inlong_encoder(options)
