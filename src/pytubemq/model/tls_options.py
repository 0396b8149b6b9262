"""The options of a client's TLS connections: paths of PEM files, never their content.

The invariant: equal options are the same connection settings, so they can be part of the key of a shared connection,
be sent to another process, and be shown anywhere: there is nothing secret in them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from pytubemq.errors import ConfigError


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """Options by which a client recognises servers, and shows them who it is.

    Only certificates that a CA in `ca` has signed are accepted, and only if they name the host that was connected to.

    Args:
        ca: a PEM file with the certificates of the CAs that sign the servers' certificates.
        cert: a PEM file with this client's certificate and those between it and its CA, for servers that demand one.
        key: a PEM file with its private key; without it, `cert` has the key, too.
        server_name: the name that every server's certificate must have, instead of the host connected to.
    """

    ca: str
    cert: str | None = None
    key: str | None = None
    server_name: str | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None:  # a path object, too
                object.__setattr__(self, one.name, str(value).strip() or None)
        if not self.ca:
            raise ConfigError(
                "TLS without a CA would trust anybody",
                hint="give the file of the CA that signed the servers' certificates, as in ca='ca.pem'",
            )
        if self.key is not None and self.cert is None:
            raise ConfigError(
                "TLS has a private key and no certificate that belongs to it",
                hint="give the certificate's file as cert",
            )
