"""The options of source and sink that say which cluster is meant, and how to reach it over TLS.

The invariant: options name files, and hold nothing secret, so Spark may show them in plans, its UI and its event log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError
from pytubemq.model.cluster_address import ClusterAddress
from pytubemq.model.tls_options import TlsOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

TLS_OPTIONS: Final = {"tlsCa": "ca", "tlsCert": "cert", "tlsKey": "key", "tlsServerName": "server_name"}
"""The options, each with its name among `TlsOptions`."""

FILE: Final = "the path of a PEM file, the same on the driver and on all executors"
"""The value that the options take that name a file."""


def cluster_address(master: str, given: Mapping[str, str]) -> ClusterAddress:
    """Return the cluster of the option `master` and of the TLS options beside it.

    Raises:
        FormatError: the address is malformed.
        ConfigError: a TLS option is missing, or contradicts the address.
    """
    options = {own: given[name] for name, own in TLS_OPTIONS.items() if name in given}
    if not options:
        return ClusterAddress.parse(master)
    if not options.get("ca", "").strip():
        first = next(name for name in TLS_OPTIONS if name in given)
        raise ConfigError(f"the option {first} has no meaning without tlsCa", hint=f"tlsCa takes {FILE}")
    return ClusterAddress.parse(master, tls=TlsOptions(**options))
