"""The root key of a cluster, in a file of its own.

The invariants: the file belongs to its owner alone; an existing key is never replaced; the key is shown in no text.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import stat
from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError
from pytubemq.security.token_keys import ROOT_KEY_BYTES
from pytubemq.storage.disk.disk import PRIVATE_FILE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

KEY_VARIABLE: Final = "PYTUBEMQ_ROOT_KEY"
"""The environment variable that may have the key, in base64, in place of the file."""
_HINT: Final = "restore the file from a copy; without it no stored secret can be opened"


def load_root_key(path: Path, environment: Mapping[str, str], *, create: bool) -> bytes | None:
    """Return the root key of the environment or the file; create the file if asked, else return None without one.

    Raises:
        ConfigError: the key is malformed, or other users of the machine can read the file.
    """
    if text := environment.get(KEY_VARIABLE, "").strip():
        return _decoded(text, f"the variable {KEY_VARIABLE}")
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return _create(path) if create else None
    except OSError as error:
        raise ConfigError(f"the key file {path} cannot be read: {error.strerror or error}") from error
    if stat.S_IMODE(mode) & 0o077:
        raise ConfigError(f"the key file {path} is open to other users of this machine", hint=f"run  chmod 600 {path}")
    try:
        return _decoded(path.read_text(encoding="ascii", errors="replace"), f"the key file {path}")
    except OSError as error:
        raise ConfigError(f"the key file {path} cannot be read: {error.strerror or error}") from error


def write_private(path: Path, content: bytes, *, what: str, hint: str) -> None:
    """Write a new file that only its owner may read; it is on the disk when this returns.

    Raises:
        ConfigError: it cannot be written, or exists; the text says `what` it is.
    """
    # Under another name until it is whole: an empty file would be taken for a damaged one, and never replaced.
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                # Secrets sealed with a key that a power cut takes could never be opened again.
                os.fsync(file.fileno())
            os.link(unfinished, path)
        finally:
            unfinished.unlink()
        directory = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise ConfigError(f"the {what} file {path} cannot be written: {error.strerror or error}", hint=hint) from error


def _create(path: Path) -> bytes:
    key = secrets.token_bytes(ROOT_KEY_BYTES)
    hint = "set security.key_file to a place that this user can write to"
    write_private(path, base64.b64encode(key) + b"\n", what="key", hint=hint)
    return key


def _decoded(text: str, where: str) -> bytes:
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != ROOT_KEY_BYTES:
        raise ConfigError(f"{where} is not {ROOT_KEY_BYTES} bytes in base64", hint=_HINT)
    return key
