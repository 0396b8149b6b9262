"""The database of a Master's records, or ZooKeeper, with its password from the environment or a file of its own.

The invariant: the password is in no setting, so no file of settings, command line or page of settings shows it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytubemq.core.database.store_options import StoreOptions, store_options
from pytubemq.errors import ConfigError
from pytubemq.model.limits import MAX_SECRET_FILE_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

PASSWORD_VARIABLE: Final = "PYTUBEMQ_STORE_PASSWORD"
"""The environment variable that may have the password, in place of the file."""
_HINT: Final = "write the password of the database's user into the first line of a file that only its owner may read"


def database_options(url: str, password_file: str, environ: Mapping[str, str]) -> StoreOptions:
    """Return a database with its password: of the environment, else of the file, else none.

    Raises:
        ConfigError: the URL or the file cannot be used.
    """
    password = environ.get(PASSWORD_VARIABLE) or None
    if password is None and password_file:
        password = _read(Path(password_file).expanduser())
    return store_options(url, password)


def _read(path: Path) -> str:
    name = f"the password file {path}"
    try:
        # Opening a pipe must not wait for its writer.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise ConfigError(f"{name} is not a file", hint=_HINT)
            if stat.S_IMODE(mode) & 0o077:
                raise ConfigError(f"{name} is open to other users of this machine", hint=f"run  chmod 600 {path}")
            content = file.read(MAX_SECRET_FILE_BYTES + 1)
        password = content.decode().split("\n", 1)[0].rstrip("\r")
    except UnicodeDecodeError:
        # Without its cause, which has the file's content.
        raise ConfigError(f"{name} is not text in UTF-8", hint=_HINT) from None
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror or error}", hint=_HINT) from error
    if len(content) > MAX_SECRET_FILE_BYTES:
        raise ConfigError(f"{name} is longer than {MAX_SECRET_FILE_BYTES} bytes", hint=_HINT)
    if not password:
        raise ConfigError(f"{name} is empty", hint=_HINT)
    return password
