"""The credentials of a client: given by the program, by a file that the address names, or by the environment.

The invariants: only the first of these that is given counts; no error shows a secret.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError
from pytubemq.model.limits import MAX_SECRET_FILE_BYTES
from pytubemq.security.credentials import Credentials
from pytubemq.security.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.model.cluster_address import ClusterUser

USER_VARIABLE: Final = "PYTUBEMQ_USER"
FILE_VARIABLE: Final = "PYTUBEMQ_SECRET_FILE"
SECRET_VARIABLE: Final = "PYTUBEMQ_SECRET"


def find_credentials(
    given: Credentials | None, user: ClusterUser | None, environ: Mapping[str, str]
) -> Credentials | None:
    """Return the credentials of a client; None if nothing names a user.

    Args:
        given: credentials that the program passes.
        user: the user in the cluster's address.
        environ: the environment, with `PYTUBEMQ_USER` and `PYTUBEMQ_SECRET_FILE` or `PYTUBEMQ_SECRET`.

    Raises:
        ConfigError: a user without a secret, a secret without a user, or a file that cannot be used.
    """
    if given is not None:
        return given
    if user is not None:
        return read_credentials(user)
    return _of_environment(environ)


def read_credentials(user: ClusterUser) -> Credentials:
    """Return the credentials of a user whose secret is in a file.

    Raises:
        ConfigError: as `read_secret_file`.
    """
    return Credentials(user.user, read_secret_file(user.secret_file))


def read_secret_file(name: str, *, holds: str = "secret", printed_by: str = "pytubemq user create") -> Secret:
    """Return the secret in a file: its first line.

    Args:
        name: the file's path.
        holds: the noun for what is in it, for errors.
        printed_by: the command that printed it, for errors.

    Raises:
        ConfigError: there is no such file, it is empty or too long, or other users of the machine can read it.
    """
    path = Path(name).expanduser()
    file_text = f"the {holds} file {path}"
    hint = f"name the file with the {holds} that `{printed_by}` printed"
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(path.stat().st_mode) & 0o077:
                raise ConfigError(f"{file_text} is open to other users of this machine", hint=f"run  chmod 600 {path}")
            content = file.read(MAX_SECRET_FILE_BYTES + 1)
        secret = content.decode().split("\n", 1)[0].strip()
    except UnicodeDecodeError:
        # without its cause, which has the file's content
        raise ConfigError(f"{file_text} is not text in UTF-8", hint=hint) from None
    except OSError as error:
        raise ConfigError(f"{file_text} cannot be read: {error.strerror or error}", hint=hint) from error
    if len(content) > MAX_SECRET_FILE_BYTES:
        raise ConfigError(f"{file_text} is longer than {MAX_SECRET_FILE_BYTES} bytes", hint=hint)
    if not secret:
        raise ConfigError(f"{file_text} is empty", hint=f"put the user's {holds} on its first line")
    return Secret(secret)


def _of_environment(environ: Mapping[str, str]) -> Credentials | None:
    user, file, secret = (environ.get(name, "").strip() for name in (USER_VARIABLE, FILE_VARIABLE, SECRET_VARIABLE))
    if not (user or file or secret):
        return None
    if not user:
        raise ConfigError(
            f"the variable {FILE_VARIABLE if file else SECRET_VARIABLE} is set, and {USER_VARIABLE} is not",
            hint=f"export {USER_VARIABLE}=NAME, or unset {FILE_VARIABLE if file else SECRET_VARIABLE}",
        )
    if file and secret:
        raise ConfigError(f"the variables {FILE_VARIABLE} and {SECRET_VARIABLE} are both set", hint="unset one of them")
    if file:
        return Credentials(user, read_secret_file(file))
    if not secret:
        raise ConfigError(
            f"the variable {USER_VARIABLE} is set, and neither {FILE_VARIABLE} nor {SECRET_VARIABLE}",
            hint=f"export {FILE_VARIABLE}=FILE, with the secret that `pytubemq user create` printed",
        )
    return Credentials(user, Secret(secret))
