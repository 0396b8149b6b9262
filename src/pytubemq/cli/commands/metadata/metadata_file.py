"""The metadata of a cluster as a TOML file that people read and keep in git.

The invariant: the same metadata has the same text, and the text, read again, has the same metadata.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

MAX_FILE_BYTES: Final = 16 * 1024 * 1024
_HEAD: Final = (
    "# Metadata of a TubeMQ cluster. Compare: pytubemq cluster diff FILE   Change: pytubemq cluster apply FILE\n"
)
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


def metadata_text(metadata: Mapping[str, Any]) -> str:
    """Return metadata as TOML: keys in their order, a table for each entry."""
    return _HEAD + "\n".join(_table(metadata, ())) + "\n"


def read_metadata(path: Path) -> dict[str, Any]:
    """Return the metadata in a file.

    Raises:
        ConfigError: it cannot be read, is too large, or is not TOML; the error names the line.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}",
            hint="name a file as written by `pytubemq cluster export`",
        ) from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path} is longer than {MAX_FILE_BYTES:,} bytes", hint="divide it by sections")
    try:
        found = tomllib.loads(data.decode())
        json.dumps(found)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 at byte {error.start}", hint="save it as UTF-8") from error
    except RecursionError as error:
        raise ConfigError(f"{path} is nested too deeply", hint="see `pytubemq cluster export`") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}", hint="see `pytubemq cluster export`") from error
    except TypeError as error:  # a date, of which there are none in metadata
        raise ConfigError(f"{path} has a date or a time, and no key takes one", hint="put it in quotes") from error
    return found


def write_metadata(path: Path, text: str) -> None:
    """Write a file as a whole; after a failure it has its former content. Raises ConfigError."""
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(text, "utf-8")
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise ConfigError(f"{path} cannot be written: {error.strerror}", hint="name another file") from error


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    inner = {key: value for key, value in table.items() if isinstance(value, dict)}
    values = {key: value for key, value in table.items() if key not in inner}
    if path and (values or not inner):
        yield ""
        yield f"[{'.'.join(map(_key, path))}]"
    for key, value in values.items():
        yield f"{_key(key)} = {_value(value)}"
    for key, value in inner.items():
        yield from _table(value, (*path, key))


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        texts = [_value(item) for item in value]
        line = f"[{', '.join(texts)}]"
        return line if len(line) < 100 or len(texts) < 2 else "[\n" + "".join(f"  {text},\n" for text in texts) + "]"
    return _text(value) if isinstance(value, str) else str(value)


def _text(text: str) -> str:
    if '"' in text and "'" not in text and text.isprintable():
        return f"'{text}'"  # as flow-control rules are JSON
    return json.dumps(text, ensure_ascii=not text.isprintable()).replace("\x7f", "\\u007f")
