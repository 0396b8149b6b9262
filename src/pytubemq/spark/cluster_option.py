"""The options of source and sink that say which cluster is meant, how to reach it over TLS, and as which user.

The invariant: options name files, and hold nothing secret, so Spark may show them in plans, its UI and its event log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError
from pytubemq.model.cluster_address import ClusterAddress, ClusterUser
from pytubemq.model.tls_options import TlsOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

TLS_OPTIONS: Final = {"tlsCa": "ca", "tlsCert": "cert", "tlsKey": "key", "tlsServerName": "server_name"}
"""The options, each with its name among `TlsOptions`."""

FILE: Final = "the path of a PEM file, the same on the driver and on all executors"
"""The value that the options take that name a file."""

USER: Final = "user"
SECRET_FILE: Final = "secretFile"
DRIVERS_FILE: Final = "the path of a file of mode 0600 on the driver"
"""The value of `SECRET_FILE`."""
USER_HINT: Final = f"the options {USER} and {SECRET_FILE} name the user and the file with its secret"
"""The hint for a user that is refused, or missing."""
USER_DOC: Final = (
    "The user to connect as, where the cluster authenticates clients. Without it that of the environment, "
    "`PYTUBEMQ_USER`."
)
SECRET_FILE_DOC: Final = (
    "The file with that user's secret on its first line. Executors get a client token from the driver, which the "
    "Master renews; only a Java Master issues none, and then the file must be at the same path there, too."
)
"""The descriptions of the two options, which the tables of source and sink share."""

SECRETS: Final = frozenset({"secret", "password", "credentials", "token"})
SECRETS_HINT: Final = f"Spark shows options; put the secret into a file, and name that with {SECRET_FILE}"
"""The hint for an option that is named in SECRETS (in lower case): such options do not exist."""


def cluster_address(master: str, given: Mapping[str, str]) -> ClusterAddress:
    """Return the cluster of the option `master`, and of the options of TLS and the user beside it.

    Raises:
        FormatError: the address is malformed.
        ConfigError: an option of TLS or of the user is missing, or contradicts the address.
    """
    user = _user(given)
    options = {own: given[name] for name, own in TLS_OPTIONS.items() if name in given}
    if not options:
        return ClusterAddress.parse(master, user=user)
    if not options.get("ca", "").strip():
        first = next(name for name in TLS_OPTIONS if name in given)
        raise ConfigError(f"the option {first} has no meaning without tlsCa", hint=f"tlsCa takes {FILE}")
    return ClusterAddress.parse(master, tls=TlsOptions(**options), user=user)


def _user(given: Mapping[str, str]) -> ClusterUser | None:
    for one, other, takes in ((USER, SECRET_FILE, DRIVERS_FILE), (SECRET_FILE, USER, "the name of a user")):
        if given.get(one, "").strip() and not given.get(other, "").strip():
            raise ConfigError(f"the option {one} has no meaning without {other}", hint=f"{other} takes {takes}")
    return ClusterUser(given[USER], given[SECRET_FILE]) if given.get(USER, "").strip() else None
