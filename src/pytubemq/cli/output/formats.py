"""Messages as text: `-f` formats going out, lines and JSON coming in.

The invariants: `produce --input json` reads back the output of `-f json` and of `store export` byte for byte, whatever
the body; a terminal shows a message's bytes and obeys none of them.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from pytubemq.core.reset_target import utc
from pytubemq.errors import ConfigError, MessageError
from pytubemq.model.names import escaped, escaped_json
from pytubemq.model.suggest import suggest

if TYPE_CHECKING:
    from pytubemq.model.message import Message

Render = Callable[["Message"], bytes]

FIELDS = """%v body  %v{json} as a JSON string  %v{base64}  %v{hex}  %t topic  %b broker id  %p partition id
%o offset  %T time of arrival  %i message id  %m type  %M message time  %a{key} one attribute  %a all, as JSON  %% a %
\\n \\t \\r \\0 \\\\ as in C; json = one object a line; raw = the bodies and nothing between"""

COLUMNS = ("topic", "broker_id", "partition", "offset", "appended_at", "message_id", "msg_type", "msg_time",
           "attributes", "body", "body_base64")  # fmt: skip

_TOKEN = re.compile(
    r"%(?P<field>[a-zA-Z])(?:\{(?P<option>[^}]*)\}|(?P<open>\{))?|%(?P<percent>%)|\\(?P<escape>.)", re.DOTALL
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}


class Outgoing(NamedTuple):
    """A message to send."""

    body: bytes
    attributes: dict[str, str]
    msg_type: str | None
    msg_time: str | None
    key: str | None


def renderer(text: str, *, plain: bool = False) -> Render:
    """Return the function that prints a message: `json`, `raw`, or a text with % fields.

    With `plain` control characters of the message are escaped, so that no terminal obeys them.

    Raises:
        ConfigError: an unknown field or escape.
    """
    if text == "json":
        if plain:
            return lambda message: escaped_json(json.dumps(to_dict(message), ensure_ascii=False)).encode() + b"\n"
        return lambda message: json.dumps(to_dict(message), ensure_ascii=False).encode() + b"\n"
    if text == "raw":
        return plainly(lambda message: message.body) if plain else lambda message: message.body
    parts: list[Render] = []
    position = 0
    for token in _TOKEN.finditer(text):
        parts.append(_literal(text[position : token.start()]))
        part = _part(token)
        parts.append(plainly(part) if plain and token["escape"] is None else part)
        position = token.end()
    parts.append(_literal(text[position:]))
    return lambda message: b"".join([part(message) for part in parts])


def plainly(render: Render) -> Render:
    r"""Escape what a terminal would obey or cannot show, as `\x1b` or `\xff`; line feeds and tabs stay."""

    def rendered(message: Message) -> bytes:
        text = render(message).decode("utf-8", "backslashreplace")
        if text.isprintable():
            return text.encode()
        return "\n".join("\t".join(map(escaped, line.split("\t"))) for line in text.split("\n")).encode()

    return rendered


def to_dict(message: Message) -> dict[str, Any]:
    """Return a message as JSON's values; a body that is not UTF-8 is `body_base64`."""
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


def parse_json_line(line: bytes, *, number: int, source: str = "") -> Outgoing:
    """Parse one line of `--input json`; `source` precedes its number in errors.

    Raises:
        MessageError: not an object with `body` or `body_base64`; names the line and what is wrong with it.
    """
    try:
        return _outgoing(json.loads(line))
    except UnicodeDecodeError:
        wrong = "is not UTF-8"
    except json.JSONDecodeError as error:
        wrong = f"is not JSON: {error.msg} at character {error.pos + 1}"
    except RecursionError:
        wrong = "is nested too deeply"
    except _WrongLine as error:
        wrong = str(error)
    raise MessageError(
        f"{source}line {number} {wrong}",
        hint='write one object a line, as in {"body": "hello", "attributes": {"k": "v"}}',
        code=400,
    )


class _WrongLine(Exception):
    """A fault of a line."""


def _outgoing(found: Any) -> Outgoing:
    if not isinstance(found, dict):
        raise _WrongLine(f"is {_kind(found)}, a message is an object")
    unknown = [name for name in found if name not in COLUMNS and name not in _BESIDE]
    near = next((close for name in unknown if (close := suggest(name, _INPUTS))), None)
    meant = f", did you mean {near}?" if near else ""
    if "body" not in found and "body_base64" not in found:
        raise _WrongLine(f"has no body; it has {', '.join(found) or 'nothing'}{meant}")
    if unknown:
        fields = "an unknown field" if len(unknown) == 1 else "unknown fields"
        raise _WrongLine(f"has {fields}: {', '.join(unknown)}{meant}")
    if "type" in found and "msg_type" in found:
        raise _WrongLine("has both type and msg_type")
    attributes = found.get("attributes") or {}
    if not isinstance(attributes, dict):
        raise _WrongLine(f"has as attributes {_kind(attributes)}, they are an object")
    for name, value in attributes.items():
        _as_text(f"attribute {name!r}", value)
    type_name = "type" if "type" in found else "msg_type"
    msg_type, msg_time, key = (
        None if found.get(name) is None else _as_text(name, found[name]) for name in (type_name, "msg_time", "key")
    )
    return Outgoing(_json_body(found), attributes, msg_type, msg_time, key)


_BESIDE = ("key", "type", "time_ms")
"""The fields that `-f json` does not print: a key, and two names of `store export`, `type` for `msg_type`."""
_INPUTS = ("body", "body_base64", "attributes", "msg_type", "msg_time", "key")


def _json_body(found: dict[str, Any]) -> bytes:
    if "body" in found and "body_base64" in found:
        raise _WrongLine("has both body and body_base64")
    if "body" in found:
        return _as_text("body", found["body"]).encode()
    try:
        return base64.b64decode(_as_text("body_base64", found["body_base64"]), validate=True)
    except ValueError:
        raise _WrongLine("has a body_base64 that is not base64") from None


def _as_text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise _WrongLine(f"has {_kind(value)} as {name}, which must be text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _WrongLine(f"has half a character in {name}: an unpaired \\ud800 to \\udfff") from None
    return value


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "an array", str: "text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def _literal(text: str) -> Render:
    data = text.encode()
    return lambda _: data


def _part(token: re.Match[str]) -> Render:
    escape, field, option = token["escape"], token["field"], token["option"]
    if token["open"]:
        raise ConfigError(f"-f: {token[0]} has no closing brace", hint=FIELDS)
    if escape is not None:
        if escape not in _ESCAPES:
            raise ConfigError(f"-f: unknown escape \\{escape}", hint=FIELDS)
        return _literal(_ESCAPES[escape])
    if token["percent"]:
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
    return None if wall_ms is None else utc(wall_ms)
