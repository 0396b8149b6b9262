"""Every setting of a server, typed, with its default and its meaning.

The invariant: a `Settings` that exists is usable: types and bounds hold, addresses parse, and nothing listens beyond
this machine unless a setting allows it explicitly. The descriptions in `sections` are the reference documentation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, field

from pytubemq.errors import ConfigError
from pytubemq.master.leader.store_settings import check_store
from pytubemq.model.ids import DEFAULT_BROKER_PORT, DEFAULT_MASTER_PORT
from pytubemq.security.authentication_mode import AuthenticationMode
from pytubemq.server.sections.addresses import check_version, is_ip, is_loopback, parse_address
from pytubemq.server.sections.broker import DEFAULT_BROKER_HTTP_PORT, BrokerSection
from pytubemq.server.sections.http import DEFAULT_HTTP_PORT, HttpSection
from pytubemq.server.sections.log import LogSection
from pytubemq.server.sections.master import MasterSection
from pytubemq.server.sections.security import SecuritySection
from pytubemq.server.sections.tls import TlsSection

_RPC_ADDRESSES = ("master.listen", "broker.listen")


class Settings(Struct, frozen=True, kw_only=True):
    """All settings of one server process."""

    data: Annotated[str, Meta(description="directory of all data")] = "./tubemq-data"
    insecure: Annotated[
        bool,
        Meta(
            description="allow listening beyond this machine without TLS and authentication, and a token that can be "
            "guessed; log, health, metrics and pages say so"
        ),
    ] = False
    master: MasterSection = field(default_factory=MasterSection)
    broker: BrokerSection = field(default_factory=BrokerSection)
    http: HttpSection = field(default_factory=HttpSection)
    security: SecuritySection = field(default_factory=SecuritySection)
    tls: TlsSection = field(default_factory=TlsSection)
    log: LogSection = field(default_factory=LogSection)

    def _is_protected(self, key: str) -> bool:
        """True if an address of this process serves only authenticated users, over TLS."""
        over_tls = not self.tls.plain if key in _RPC_ADDRESSES else bool(self.http.tls_cert)
        return over_tls and self.security.authentication is AuthenticationMode.ENFORCED

    @property
    def data_dir(self) -> Path:
        """`data` as an absolute path."""
        return Path(self.data).expanduser().absolute()

    def check(self) -> Settings:
        """Return these settings if they can be used.

        Raises:
            ConfigError: an address does not parse, is an IPv6 one where the protocol cannot carry it, or listens beyond
                this machine without protection and without `insecure = true`; a TLS file is given without the one that
                it belongs to, or of an OIDC issuer something is missing; `log.story` is malformed; the token can be
                guessed.
        """
        self.tls.check()
        self.security.check()
        check_store(self.master.store, self.master.store_password_file)
        self.http.check()
        self._check_listening()
        if not self.insecure:
            self.http.check_token()
        self.log.check()
        self._check_others()
        return self

    def _check_listening(self) -> None:
        """Refuse an address to listen on that is none, or that strangers could use."""
        listening = {
            "master.listen": (self.master.listen, DEFAULT_MASTER_PORT),
            "broker.listen": (self.broker.listen, DEFAULT_BROKER_PORT),
            "http.listen": (self.http.listen, DEFAULT_HTTP_PORT),
        }
        if self.broker.http_listen:
            listening["broker.http_listen"] = (self.broker.http_listen, DEFAULT_BROKER_HTTP_PORT)
        for key, (text, port) in listening.items():
            address = parse_address(key, text, default_port=port)
            if key in _RPC_ADDRESSES:
                check_version(key, text, address)
            if self.insecure or self._is_protected(key) or is_loopback(address.host):
                continue
            if not is_ip(address.host) and ":" not in text:
                raise ConfigError(
                    f"{key} = {text!r} has no port, and {text.strip()!r} is not an address of this machine",
                    hint=f"write host:port, as in 127.0.0.1:{port}",
                )
            raise _unprotected(key, text)

    def _check_others(self) -> None:
        """Refuse an address to advertise or to call that the protocol cannot carry."""
        for key, text, port in (
            ("master.advertised", self.master.advertised, DEFAULT_MASTER_PORT),
            ("broker.advertised", self.broker.advertised, DEFAULT_BROKER_PORT),
            *(("broker.masters", master, DEFAULT_MASTER_PORT) for master in self.broker.masters),
        ):
            if text:
                check_version(key, text, parse_address(key, text, default_port=port))


def _unprotected(key: str, text: str) -> ConfigError:
    """Return the error of an address that strangers could use."""
    if key in _RPC_ADDRESSES:
        return ConfigError(
            f"{key} = {text!r} would listen beyond this machine, without TLS or without authentication",
            hint='set `tls.plain = false` and `security.authentication = "enforced"` as in '
            "docs/how-to/secure-a-cluster.md; or set `insecure = true` to allow it in a network you trust; or listen "
            "on 127.0.0.1",
        )
    return ConfigError(
        f"{key} = {text!r} would listen beyond this machine, without TLS or without authentication",
        hint='set `http.tls_cert` and `security.authentication = "enforced"` as in docs/how-to/secure-a-cluster.md; or '
        "set `insecure = true` to allow it in a network you trust; or listen on 127.0.0.1",
    )
