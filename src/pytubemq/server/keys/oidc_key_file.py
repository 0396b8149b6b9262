"""The file with the public keys of an OIDC issuer, followed while the server runs.

The invariants: a file that cannot be used ends the start; later a changed one that cannot be used leaves the keys from
before in force, and the log and the cluster's health say so; only the file's owner and group can change it.
"""

from __future__ import annotations

import logging
import os
import stat
from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError, one_line
from pytubemq.model.limits import MAX_OIDC_KEYS_BYTES
from pytubemq.security.oidc.issuer_keys import IssuerKeys, read_issuer_keys

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

_HINT: Final = "set security.oidc_keys to the file with the JWKS of the issuer"


class OidcKeyFile:
    """The keys of one file; `reload` may be called by another thread than the one that reads `keys`."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            ConfigError: it cannot be used.
        """
        self._path = path
        self._stamp = _stamp(path)
        self.keys: IssuerKeys = _read(path)
        self.problem: str | None = None
        """The reason why a changed file is not in force; None if it is."""

    def reload(self) -> bool:
        """Read the file if it has changed; return True if its keys are now in force."""
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            self.keys = _read(self._path)
        except ConfigError as error:
            self.problem = one_line(error)
            logger.warning("the changed keys of the OIDC issuer are not used, those from before are: %s", self.problem)
            return False
        self.problem = None
        logger.info("loaded %d changed keys of the OIDC issuer from %s", len(self.keys), self._path)
        return True


def _stamp(path: Path) -> object:
    """Return what changes when the file is replaced or written; a missing file has a stamp, too."""
    try:
        status = path.stat()
    except OSError as error:
        return error.errno
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


def _read(path: Path) -> IssuerKeys:
    try:
        # Opening a pipe must not wait for its writer.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise ConfigError(f"{path} is not a file", hint=_HINT)
            data = file.read(MAX_OIDC_KEYS_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"the OIDC key file {path} cannot be read: {error.strerror or error}", hint=_HINT) from error
    if mode & stat.S_IWOTH:
        raise ConfigError(
            f"the OIDC key file {path} can be changed by every user of this machine", hint=f"run  chmod o-w {path}"
        )
    if len(data) > MAX_OIDC_KEYS_BYTES:
        raise ConfigError(f"the OIDC key file {path} has more than {MAX_OIDC_KEYS_BYTES:,} bytes", hint=_HINT)
    return read_issuer_keys(data, f"the OIDC key file {path}")
