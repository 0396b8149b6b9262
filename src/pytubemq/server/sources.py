"""The sources of settings: a TOML file, the environment over it, flags over both.

The invariant: an unknown key is never ignored silently; the error suggests a similar one,
and names the position of the wrong one.
"""

from __future__ import annotations

import json
import re
import tomllib
from enum import Enum
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import msgspec

from pytubemq.errors import ConfigError
from pytubemq.model.suggest import suggest
from pytubemq.server.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

ENV_PREFIX = "PYTUBEMQ_"
_TOO_CLOSE = 0.8
"""The similarity to a top-level key from which a variable without `__` is treated as a misspelt one; others (such as
those that Kubernetes sets for a service named pytubemq) are ignored."""
_SHOWN_CHARS = 80


def load_settings(
    path: Path | None,
    *,
    environ: Mapping[str, str],
    flags: Mapping[str, object] | None = None,
    origins: dict[str, str] | None = None,
) -> Settings:
    """Return settings from a file, the environment over it, flags over both.

    `origins` receives the origin of each setting that was given.

    The variable for `master.listen` is `PYTUBEMQ_MASTER__LISTEN`, and `flags` has it under its dotted name.

    Raises:
        ConfigError: unreadable, not TOML, an unknown key, a value of the wrong type or out of bounds.
    """
    merged: dict[str, Any] = {}
    origins = {} if origins is None else origins
    if path is not None:
        text, table = _read(path)
        for key, value in _flatten(table):
            _put(merged, origins, key, value, _place(path, text, key))
    for key, value, name in _from_environment(environ):
        _put(merged, origins, key, value, name)
    for key, value in (flags or {}).items():
        if value is not None:
            _put(merged, origins, key, value, f"--set {key}")
    return _convert(merged, origins).check()


def known_keys() -> dict[str, msgspec.inspect.Field]:
    """Return every setting by its dotted name."""
    found: dict[str, msgspec.inspect.Field] = {}
    top = msgspec.inspect.type_info(Settings)
    assert isinstance(top, msgspec.inspect.StructType)
    for entry in top.fields:
        if isinstance(entry.type, msgspec.inspect.StructType):
            found.update({f"{entry.name}.{inner.name}": inner for inner in entry.type.fields})
        else:
            found[entry.name] = entry
    return found


def _bare(entry: msgspec.inspect.Field) -> msgspec.inspect.Type:
    kind = entry.type
    return kind.type if isinstance(kind, msgspec.inspect.Metadata) else kind


def describe(entry: msgspec.inspect.Field) -> str:
    """Return the meaning of a setting."""
    kind = entry.type
    extra = kind.extra_json_schema if isinstance(kind, msgspec.inspect.Metadata) else None
    return str((extra or {}).get("description", ""))


_KEYS = known_keys()
_SECTIONS = {key.split(".")[0] for key in _KEYS if "." in key}
_LISTS = {key for key, entry in _KEYS.items() if isinstance(_bare(entry), msgspec.inspect.ListType)}
_BOOLEANS = {key for key, entry in _KEYS.items() if isinstance(_bare(entry), msgspec.inspect.BoolType)}


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = path.read_text("utf-8")
        return text, tomllib.loads(text)
    except OSError as error:
        raise ConfigError(
            f"cannot read the settings file {path}: {error.strerror or error}", hint="check the path given with -c"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} is not TOML: {error}",
            hint="write `[broker]` and `id = 2`, a line each; all settings:  pytubemq server settings",
        ) from error


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict) and (value or name in _SECTIONS):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _from_environment(environ: Mapping[str, str]) -> Iterable[tuple[str, str, str]]:
    top_level = [key for key in _KEYS if "." not in key]
    for name in sorted(environ):
        if not name.startswith(ENV_PREFIX):
            continue
        key = name.removeprefix(ENV_PREFIX).lower().replace("__", ".")
        ours = "." in key or key in top_level or suggest(key, top_level, likeness=_TOO_CLOSE)
        if ours:
            yield key, environ[name], name


def _put(merged: dict[str, Any], origins: dict[str, str], key: str, value: object, origin: str) -> None:
    if key not in _KEYS:
        top = sorted({*_SECTIONS, *(name for name in _KEYS if "." not in name)})
        near = None if "." in key else suggest(key, top, likeness=_TOO_CLOSE)
        near = near or suggest(key, _KEYS, likeness=0.5)
        hint = f"did you mean {near!r}?" if near else "all settings:  pytubemq server settings"
        raise ConfigError(f"{origin}: unknown setting {key!r}", hint=hint)
    if key in _LISTS and isinstance(value, str):
        value = [item.strip() for item in value.split(",") if item.strip()]
    if isinstance(value, str) and key in _BOOLEANS:
        value = {"yes": "true", "on": "true", "no": "false", "off": "false"}.get(value.lower(), value)
    origins[key] = origin
    target = merged
    *sections, name = key.split(".")
    for section in sections:
        target = target.setdefault(section, {})
    target[name] = value


def _convert(merged: dict[str, Any], origins: Mapping[str, str]) -> Settings:
    try:
        return msgspec.convert(merged, Settings, strict=False)
    except msgspec.ValidationError as error:
        text = str(error)
        found = re.search(r" - at `\$\.([\w.]+)", text)
        key = found[1] if found else ""
        place = origins.get(key, "settings")
        reason = text.split(" - at ")[0]
        reason = f": {reason[:1].lower()}{reason[1:]}"
        entry = _KEYS.get(key)
        hint = None
        if entry is not None:
            reason = f" is {shown(_value(merged, key))}, {forms}" if (forms := _forms(key, _bare(entry))) else reason
            hint = f"{key}: {describe(entry)}"
        where = "" if place == f"--set {key}" else f"{place}: "
        raise ConfigError(f"{where}{key}{reason}", hint=hint) from None  # the error says everything


def _value(merged: Mapping[str, Any], key: str) -> object:
    value: Any = merged
    for name in key.split("."):
        value = value[name]
    return value


def shown(value: object) -> str:
    """Return a value as it was given, cut if it is very long."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


def _forms(key: str, kind: msgspec.inspect.Type) -> str:
    """Return the allowed values of a setting as the end of a sentence; blank where the reason says it better."""
    if isinstance(kind, msgspec.inspect.LiteralType | msgspec.inspect.EnumType):
        return f"not one of {', '.join(_declared(key))}"
    if isinstance(kind, msgspec.inspect.IntType | msgspec.inspect.FloatType):
        name = "a whole number" if isinstance(kind, msgspec.inspect.IntType) else "a number"
        least = f" above {kind.gt}" if kind.gt is not None else "" if kind.ge is None else f" from {kind.ge}"
        most = "" if kind.le is None else f" to {kind.le}" if kind.gt is None else f" and up to {kind.le}"
        return f"not {name}{least}{most}"
    if isinstance(kind, msgspec.inspect.BoolType):
        return "not one of true, false"
    return ""


def _declared(key: str) -> tuple[str, ...]:
    """Return the values of a setting that has only a few, in the order of its type."""
    kind: Any = Settings
    for name in key.split("."):
        kind = get_type_hints(kind)[name]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return tuple(one.value for one in kind)
    return get_args(kind)


def _place(path: Path, text: str, key: str) -> str:
    """Return `file:line` of a key, found by a scan of the lines: good enough to find it, and no second TOML parser."""
    *section, name = key.split(".")
    current: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if header := re.fullmatch(r"\[([^\[\]]+)\](\s*#.*)?", stripped):
            current = [part.strip().strip("\"'") for part in header[1].split(".")]
            if current == key.split("."):  # an empty section
                return f"{path}:{number}"
        elif (re.match(rf"[\"']?{re.escape(name)}[\"']?\s*=", stripped) and current == section) or (
            re.match(rf"{re.escape(key)}\s*=", stripped) and not current
        ):
            return f"{path}:{number}"
    return str(path)


def to_toml(settings: Settings) -> str:
    """Return the settings as a file, every key named."""
    tables: dict[str, Any] = msgspec.to_builtins(settings)
    lines = [f"{key} = {_toml(value)}" for key, value in tables.items() if not isinstance(value, dict)]
    for section, table in tables.items():
        if isinstance(table, dict):
            lines += ["", f"[{section}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """Return a string, a number, a Boolean or a list of strings in TOML, which is the same as in JSON."""
    return json.dumps(value, ensure_ascii=False)


def setting_rows() -> list[dict[str, object]]:
    """Return every setting: key, default, environment variable, meaning."""
    rows: list[dict[str, object]] = []
    for key, entry in _KEYS.items():
        default = msgspec.to_builtins(entry.default) if entry.default is not msgspec.NODEFAULT else []
        environment = ENV_PREFIX + key.upper().replace(".", "__")
        rows.append({"key": key, "default": default, "environment": environment, "meaning": describe(entry)})
    return rows
