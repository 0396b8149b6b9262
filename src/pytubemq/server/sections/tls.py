"""Settings of TLS for the protocol: certificates of this server, of its clients and of other servers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from pytubemq.errors import ConfigError
from pytubemq.model.tls_options import TlsOptions


class TlsSection(Struct, frozen=True, kw_only=True):
    """`[tls]`: the protocol over TLS, at ports of its own. All files are PEM; changed ones are loaded automatically."""

    cert: Annotated[
        str,
        Meta(
            description="file of this server's certificate and of those between it and its CA; with it "
            "`master.tls_port` and `broker.tls_port` are opened; empty: no TLS"
        ),
    ] = ""
    key: Annotated[str, Meta(description="file of its private key; empty: it is in the file of `cert`")] = ""
    plain: Annotated[
        bool,
        Meta(
            description="whether the ports of `master.listen` and `broker.listen`, which are not over TLS, are open "
            "beside those of TLS; `false` reserves them only, and all clients and servers need TLS"
        ),
    ] = True
    client_ca: Annotated[
        str,
        Meta(
            description="file of the CAs of clients: with it each client must show a certificate that one of them "
            "signed (mutual TLS)"
        ),
    ] = ""
    ca: Annotated[
        str,
        Meta(
            description="file of the CAs of this cluster's servers: with it a Broker reaches its Masters over TLS "
            "(port 8716, unless `broker.masters` says otherwise), and a Master those Brokers that have it"
        ),
    ] = ""
    client_cert: Annotated[
        str, Meta(description="file of the certificate to show other servers of this cluster, if they demand one")
    ] = ""
    client_key: Annotated[
        str, Meta(description="file of its private key; empty: it is in the file of `client_cert`")
    ] = ""

    def check(self) -> None:
        """Refuse settings that have no meaning without others.

        Raises:
            ConfigError: one is given alone.
        """
        for name, needed in (
            ("key", "cert"),
            ("client_ca", "cert"),
            ("client_key", "client_cert"),
            ("client_cert", "ca"),
        ):
            if getattr(self, name) and not getattr(self, needed):
                raise ConfigError(f"tls.{name} has no meaning without tls.{needed}", hint=f"set tls.{needed}, too")
        for needed in ("cert", "ca"):
            if not self.plain and not getattr(self, needed):
                raise ConfigError(
                    f"tls.plain = false needs tls.{needed}: else "
                    f"{'no port would be open' if needed == 'cert' else 'the servers could not reach each other'}",
                    hint=f"set tls.{needed}, too",
                )

    def to_servers(self) -> TlsOptions | None:
        """Return the options for connections to other servers of this cluster; None for plain ones."""
        if not self.ca:
            return None
        return TlsOptions(self.ca, self.client_cert or None, self.client_key or None)
