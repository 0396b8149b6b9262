"""The user as which a client identifies itself to a cluster: a name and the path of a file, never the secret in it.

The invariant: there is nothing secret in it, so it may be sent to another process, be part of an address, and be shown.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytubemq.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ClusterUser:
    """A user, and the file with its secret on the first line.

    Args:
        user: its name.
        secret_file: the path of the file, which only its owner may read.
    """

    user: str
    secret_file: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "user", self.user.strip())
        object.__setattr__(self, "secret_file", str(self.secret_file).strip())
        if not self.user:
            raise ConfigError("a secret file is given, and no user", hint="name the user that the secret belongs to")
        if not self.secret_file:
            raise ConfigError(
                f"the user {self.user!r} is given, and no secret file",
                hint="name the file with the secret that `pytubemq user create` printed",
            )
