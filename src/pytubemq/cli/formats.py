"""Messages as text: `-f` formats going out, lines and JSON coming in.

The invariant: what `-f json` prints, `produce --input json` reads back byte for byte, whatever the body.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from pytubemq.errors import ConfigError, MessageError

if TYPE_CHECKING:
    from pytubemq.model.message import Message

Render = Callable[["Message"], bytes]

FIELDS = """%v body  %v{json} as a JSON string  %v{base64}  %v{hex}  %t topic  %b broker id  %p partition id
%o offset  %T time of arrival  %i message id  %m type  %M message time  %a{key} one attribute  %a all, as JSON  %% a %
\\n \\t \\0 \\\\ as in C; json = one object a line; raw = the bodies and nothing between"""

COLUMNS = ("topic", "broker_id", "partition", "offset", "appended_at", "message_id", "msg_type", "msg_time",
           "attributes", "body", "body_base64")  # fmt: skip

_TOKEN = re.compile(r"%(?P<field>[a-zA-Z%])(?:\{(?P<option>[^}]*)\})?|\\(?P<escape>.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}


class Outgoing(NamedTuple):
    """A message to send."""

    body: bytes
    attributes: dict[str, str]
    msg_type: str | None
    msg_time: str | None
    key: str | None


def renderer(text: str) -> Render:
    """How a message is printed: `json`, `raw`, or a text with % fields.

    Raises:
        ConfigError: an unknown field or escape.
    """
    if text == "json":
        return lambda message: json.dumps(to_dict(message), ensure_ascii=False).encode() + b"\n"
    if text == "raw":
        return lambda message: message.body
    parts: list[Render] = []
    position = 0
    for token in _TOKEN.finditer(text):
        parts.append(_literal(text[position : token.start()]))
        parts.append(_part(token))
        position = token.end()
    parts.append(_literal(text[position:]))
    return lambda message: b"".join([part(message) for part in parts])


def to_dict(message: Message) -> dict[str, Any]:
    """A message as JSON's values; a body that is not UTF-8 stands as `body_base64`."""
    found: dict[str, Any] = {
        "topic": message.partition.topic,
        "broker_id": message.partition.broker_id,
        "partition": message.partition.partition_id,
        "offset": message.offset,
        "appended_at": _iso(message.appended_at_ms),
        "message_id": message.message_id,
        "msg_type": message.msg_type,
        "msg_time": message.msg_time,
        "attributes": dict(message.attributes),
    }
    try:
        found["body"] = message.body.decode()
    except UnicodeDecodeError:
        found["body_base64"] = base64.b64encode(message.body).decode()
    return found


def parse_json_line(line: bytes, *, number: int) -> Outgoing:
    """One line of `--input json`.

    Raises:
        MessageError: not an object with `body` or `body_base64`; names the line.
    """
    try:
        found = json.loads(line)
        body = found["body"].encode() if "body" in found else base64.b64decode(found["body_base64"], validate=True)
        attributes = {str(key): str(value) for key, value in (found.get("attributes") or {}).items()}
        return Outgoing(body, attributes, found.get("msg_type"), found.get("msg_time"), found.get("key"))
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise MessageError(
            f"line {number} is not a message in JSON: {type(error).__name__}: {error}",
            hint='write one object a line, as in {"body": "hello", "attributes": {"k": "v"}}',
        ) from error


def _literal(text: str) -> Render:
    data = text.encode()
    return lambda _: data


def _part(token: re.Match[str]) -> Render:
    escape, field, option = token["escape"], token["field"], token["option"]
    if escape is not None:
        if escape not in _ESCAPES:
            raise ConfigError(f"-f: unknown escape \\{escape}", hint=FIELDS)
        return _literal(_ESCAPES[escape])
    if field == "%":
        return _literal("%")
    if field == "v":
        return _body(option)
    if field == "a":
        return _attribute(option)
    getter = _GETTERS.get(field)
    if getter is None or option is not None:
        raise ConfigError(f"-f: unknown field {token[0]}", hint=FIELDS)
    return lambda message: _text(getter(message))


_GETTERS: dict[str, Callable[[Message], object]] = {
    "t": lambda message: message.partition.topic,
    "b": lambda message: message.partition.broker_id,
    "p": lambda message: message.partition.partition_id,
    "o": lambda message: message.offset,
    "T": lambda message: _iso(message.appended_at_ms),
    "i": lambda message: message.message_id,
    "m": lambda message: message.msg_type,
    "M": lambda message: message.msg_time,
}


def _body(option: str | None) -> Render:
    if option is None:
        return lambda message: message.body
    if option == "json":
        return lambda message: json.dumps(message.body.decode("utf-8", "replace"), ensure_ascii=False).encode()
    if option == "base64":
        return lambda message: base64.b64encode(message.body)
    if option == "hex":
        return lambda message: message.body.hex().encode()
    raise ConfigError(f"-f: unknown field %v{{{option}}}", hint=FIELDS)


def _attribute(name: str | None) -> Render:
    if name is None:
        return lambda message: json.dumps(dict(message.attributes), ensure_ascii=False).encode()
    return lambda message: message.attributes.get(name, "").encode()


def _text(value: object) -> bytes:
    return b"" if value is None else str(value).encode()


def _iso(wall_ms: int | None) -> str | None:
    if wall_ms is None:
        return None
    stamp = datetime.fromtimestamp(wall_ms / 1000, UTC)
    return stamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")
