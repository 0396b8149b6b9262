"""The certificates and secrets of `pytubemq dev --secure`, in its data directory.

The invariants: what exists is used again, so a second start changes nothing for clients; each key and secret is random,
and readable only by the user who started the cluster; texts have the paths of files, never their content.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from pytubemq.client.client_credentials import read_secret_file
from pytubemq.server.keys.root_key import write_private
from pytubemq.server.trial_certificates import TrialFiles, key_of, make_trial_certificates
from pytubemq.storage.disk.disk import make_private

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.security.secret import Secret

ADMIN: Final = "admin"
"""The name of the user who may do everything."""
ADMIN_PERMISSION: Final = ("admin", "cluster", "*")
DIRECTORY: Final = "access"
"""The name of the directory below the data directory."""
_SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class DevAccess:
    """The files that clients on this machine need to connect."""

    certificates: TrialFiles
    secret_file: Path
    """The file with the secret of ADMIN."""
    token_file: Path
    """The file with the token for changes over HTTP."""
    user: str = ADMIN

    @property
    def directory(self) -> Path:
        """The directory of these files."""
        return self.secret_file.parent

    @property
    def secret(self) -> Secret:
        """The secret of ADMIN. Raises ConfigError if the file cannot be used."""
        return read_secret_file(str(self.secret_file))

    def settings(self) -> dict[str, object]:
        """Return the settings of a cluster with authentication and TLS.

        Raises:
            ConfigError: the file of the HTTP token cannot be used.
        """
        cert, ca = str(self.certificates.server), str(self.certificates.ca)
        key = str(key_of(self.certificates.server))
        return {
            "insecure": "false",
            "tls.cert": cert,
            "tls.key": key,
            "tls.ca": ca,
            "tls.plain": "false",
            "http.tls_cert": cert,
            "http.tls_key": key,
            "http.token": read_secret_file(str(self.token_file)).reveal(),
            "security.authentication": "enforced",
        }

    def master_address(self, master: str) -> str:
        """Return the address of a Master with its CA and the user to connect as."""
        ca, secret_file = _in_url(self.certificates.ca), _in_url(self.secret_file)
        return f"tls://{master}?ca={ca}&user={self.user}&secret_file={secret_file}"

    def http_address(self, url: str) -> str:
        """Return the URL of the JSON API with its CA and the file of the token."""
        return f"{url}?ca={_in_url(self.certificates.ca)}&token_file={_in_url(self.token_file)}"


def dev_access(data_dir: Path) -> DevAccess:
    """Return the files for the cluster in a data directory; the first call makes them.

    Raises:
        MissingExtraError: the library that makes certificates is not installed.
        AlreadyExistsError: some of the certificates are missing, and others exist.
        ConfigError: a file cannot be read or written, or other users of the machine can read it.
    """
    directory = data_dir / DIRECTORY
    files = TrialFiles(directory)
    if not all(path.exists() for path in files.all):
        make_trial_certificates(directory)
    make_private(directory)
    access = DevAccess(files, directory / f"{ADMIN}.secret", directory / "http.token")
    for path in (access.secret_file, access.token_file):
        if not path.exists():
            content = secrets.token_urlsafe(_SECRET_BYTES).encode() + b"\n"
            write_private(path, content, what="secret", hint="give a directory that this user can write to (--data)")
    return access


def _in_url(path: Path) -> str:
    return quote(str(path.absolute()))
