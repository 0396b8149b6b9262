"""Every setting of a server, typed, with its default and its meaning.

The invariant: a `Settings` that exists is usable: types and bounds hold, addresses parse, and nothing listens beyond
this machine unless a setting allows it explicitly. The descriptions here are the reference documentation.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from pytubemq.errors import ConfigError, FormatError
from pytubemq.master.settings import MasterSettings
from pytubemq.model import limits
from pytubemq.model.durability import Durability  # noqa: TC001 - the type of a setting, read when it is used
from pytubemq.model.ids import (
    DEFAULT_BROKER_PORT,
    DEFAULT_BROKER_TLS_PORT,
    DEFAULT_MASTER_PORT,
    DEFAULT_MASTER_TLS_PORT,
    Address,
)
from pytubemq.model.tls_options import TlsOptions
from pytubemq.observe.trace_events import TraceFilter
from pytubemq.security.authentication_mode import AuthenticationMode
from pytubemq.security.oidc.oidc_tokens import TokenRules
from pytubemq.security.token_strength import MIN_BITS, estimate_bits
from pytubemq.storage.store_settings import StoreSettings

DEFAULT_HTTP_PORT = 8080
DEFAULT_BROKER_HTTP_PORT = 8081
_MASTER = MasterSettings()
_STORE = StoreSettings()
"""A setting that is handed on has the default of the room that uses it."""
_RPC_ADDRESSES = ("master.listen", "broker.listen")
DEFAULT_MASTER = f"127.0.0.1:{DEFAULT_MASTER_PORT}"


class MasterSection(Struct, frozen=True, kw_only=True):
    """`[master]`: the keeper of topics, Brokers and groups."""

    listen: Annotated[str, Meta(description="address to listen on for the protocol, host:port")] = DEFAULT_MASTER
    advertised: Annotated[str, Meta(description="advertised address, when it differs from `listen`")] = ""
    tls_port: Annotated[
        int, Meta(ge=0, le=65_535, description="port for the protocol over TLS, on the host of `listen`; see [tls]")
    ] = DEFAULT_MASTER_TLS_PORT
    client_timeout_s: Annotated[
        float, Meta(gt=0, le=86_400, description="a client or Broker that is silent for this long counts as gone")
    ] = limits.CLIENT_TIMEOUT_S
    lost_connection_grace_s: Annotated[
        float,
        Meta(ge=0, le=3_600, description="a pytubemq client whose connection broke may come back within this time"),
    ] = limits.LOST_CONNECTION_GRACE_S
    auto_register_brokers: Annotated[bool, Meta(description="whether an unknown Broker may register automatically")] = (
        _MASTER.auto_register_brokers
    )


class BrokerSection(Struct, frozen=True, kw_only=True):
    """`[broker]`: the store of the messages."""

    id: Annotated[int, Meta(ge=1, le=2**31 - 1, description="this Broker's number, unique in the cluster")] = 1
    listen: Annotated[str, Meta(description="address to listen on for the protocol, host:port")] = (
        f"127.0.0.1:{DEFAULT_BROKER_PORT}"
    )
    advertised: Annotated[str, Meta(description="address advertised to clients, when it differs from `listen`")] = ""
    http_listen: Annotated[
        str,
        Meta(
            description="address to listen on for HTTP (`/broker.htm`), host:port; empty: none. `hosts`, `token` and "
            "`token_in_url` of [http] hold here too"
        ),
    ] = f"127.0.0.1:{DEFAULT_BROKER_HTTP_PORT}"
    masters: Annotated[
        list[str], Meta(description="the Masters; empty means the Master in the same process, or `master.listen`")
    ] = field(default_factory=list)
    tls_port: Annotated[
        int,
        Meta(
            ge=0,
            le=65_535,
            description="port for the protocol over TLS, on the host of `listen`; see [tls]. The Master has it in its "
            "record of this Broker, and a Java Master compares it also where nothing listens there",
        ),
    ] = DEFAULT_BROKER_TLS_PORT
    durability: Annotated[
        Durability,
        Meta(
            description="what an acknowledged message survives, if neither its topic nor the cluster sets it: "
            "a power cut (`disk`), a killed Broker (`process`), neither (`memory`)"
        ),
    ] = _STORE.durability
    retention_check_s: Annotated[float, Meta(gt=0, le=86_400, description="time between two retention passes")] = (
        limits.RETENTION_CHECK_S
    )
    check_on_read: Annotated[
        bool,
        Meta(
            description="check each record again when it is read from the disk, so that a damaged one is skipped and "
            "reported; costs some time for each single message. Without it a damaged one is found when a client could "
            "not read it and fetches again"
        ),
    ] = _STORE.check_on_read
    check_packs_on_read: Annotated[
        bool,
        Meta(
            description="the same where record batches are read, at a small cost for each message, so that this "
            "Broker notices "
            "and reports damage on its disk"
        ),
    ] = _STORE.check_packs_on_read
    heartbeat_period_s: Annotated[
        float, Meta(gt=0, le=60, description="time between heartbeats to a Master without long poll for heartbeats")
    ] = limits.BROKER_HEARTBEAT_PERIOD_S
    lease_timeout_s: Annotated[
        float, Meta(gt=0, le=3_600, description="how long a silent consumer keeps its partitions")
    ] = limits.LEASE_TIMEOUT_S
    segment_bytes: Annotated[
        int, Meta(ge=limits.MIB, le=2**40, description="size at which a partition's next log file begins")
    ] = _STORE.segment_bytes
    journal_segment_bytes: Annotated[
        int, Meta(ge=limits.MIB, le=2**40, description="the same for the journal's files")
    ] = _STORE.journal_segment_bytes
    reserve_bytes: Annotated[
        int,
        Meta(
            ge=0,
            le=2**50,
            description="free space on the disk that sends may not use, so that accepted messages "
            "always fit into their logs",
        ),
    ] = _STORE.reserve_bytes


class HttpSection(Struct, frozen=True, kw_only=True):
    """`[http]`: the Master's JSON API, the command line's entry."""

    listen: Annotated[str, Meta(description="address to listen on for HTTP, host:port")] = (
        f"127.0.0.1:{DEFAULT_HTTP_PORT}"
    )
    hosts: Annotated[
        list[str],
        Meta(
            description="names by which requests may call this server, besides this machine's own and the one in "
            "`listen`"
        ),
    ] = field(default_factory=list)
    tls_cert: Annotated[
        str,
        Meta(
            description="PEM file of the certificate for HTTPS and of those between it and its CA: with it all HTTP of "
            "this server is over TLS, the Broker's, too; a changed one is loaded automatically"
        ),
    ] = ""
    tls_key: Annotated[str, Meta(description="file of its private key; empty: it is in the file of `tls_cert`")] = ""
    token: Annotated[
        str,
        Meta(
            max_length=limits.MAX_TOKEN_CHARS,
            pattern="^[!-~]*$",
            description="what a request must carry to change something over HTTP; empty: `/webapi.htm`, `/api/v1` and "
            "`/broker.htm` accept changes only while they listen on a loopback address",
        ),
    ] = ""
    token_in_url: Annotated[
        bool,
        Meta(description="whether the token may be in the address of a request, where proxies and shells may keep it"),
    ] = True


class SecuritySection(Struct, frozen=True, kw_only=True):
    """`[security]`: who may use the cluster."""

    authentication: Annotated[
        AuthenticationMode,
        Meta(
            description="`off`: nobody is authenticated; `permissive`: users are authenticated, and what would be "
            "refused is logged; `enforced`: what is not permitted is refused. The Master decides for its Brokers"
        ),
    ] = AuthenticationMode.OFF
    key_file: Annotated[
        str,
        Meta(
            description="file of the key that secrets of users are encrypted with, made at the first start that needs "
            "it; empty: `root.key` in the Master's data directory. The variable `PYTUBEMQ_ROOT_KEY` takes precedence"
        ),
    ] = ""
    audit_days: Annotated[
        int,
        Meta(
            ge=1,
            le=3_650,
            description="days for which the Master keeps the audit trail: who changed what over HTTP, from where, "
            "before and after",
        ),
    ] = _MASTER.audit_days
    user: Annotated[str, Meta(max_length=64, description="user as which a Broker registers at its Master")] = ""
    secret_file: Annotated[
        str, Meta(description="file with the secret of that user, which only its owner may read")
    ] = ""
    oidc_issuer: Annotated[
        str,
        Meta(
            max_length=1024,
            description="OIDC issuer whose access tokens the Master accepts over HTTP, exactly as the claim `iss` has "
            "it; empty: none",
        ),
    ] = ""
    oidc_audience: Annotated[
        str, Meta(max_length=1024, description="name of this cluster at the issuer, which the claim `aud` must have")
    ] = ""
    oidc_keys: Annotated[
        str,
        Meta(
            description="file of the issuer's public keys (JWKS), for RS256, ES256 or EdDSA; the issuer itself is "
            "never asked, and a changed file is loaded automatically"
        ),
    ] = ""
    oidc_user_claim: Annotated[
        str, Meta(min_length=1, max_length=256, description="claim of the token that names the user")
    ] = "sub"
    oidc_users: Annotated[
        list[str],
        Meta(
            description="users by the value of that claim, each as `VALUE:USER`; empty: the value is the user's name, "
            "else no other value gets in"
        ),
    ] = field(default_factory=list)

    def check(self) -> None:
        """Refuse settings of an OIDC issuer that lack one another, or that nobody would look at.

        Raises:
            ConfigError: one is missing or malformed, or authentication is off.
        """
        needed = ("oidc_issuer", "oidc_audience", "oidc_keys")
        given = [name for name in (*needed, "oidc_users") if getattr(self, name)]
        for name in needed:
            if given and not getattr(self, name):
                raise ConfigError(
                    f"security.{given[0]} has no meaning without security.{name}", hint=f"set security.{name}, too"
                )
        if given and self.authentication is AuthenticationMode.OFF:
            raise ConfigError(
                "security.oidc_issuer has no meaning while authentication is off, as nobody is asked who it is",
                hint="set security.authentication to permissive or enforced",
            )
        self.token_rules()

    def token_rules(self) -> TokenRules:
        """Return what is asked of an access token. Raises ConfigError: `oidc_users` is malformed."""
        users: dict[str, str] = {}
        for entry in self.oidc_users:
            value, _, user = entry.rpartition(":")  # no name of a user has one
            if not value.strip() or not user.strip():
                raise ConfigError(
                    f"security.oidc_users: {entry!r} is not VALUE:USER",
                    hint="write the claim's value, a colon, and the user",
                )
            if value.strip() in users:
                raise ConfigError(f"security.oidc_users: {value.strip()!r} is there twice", hint="leave one of them")
            users[value.strip()] = user.strip()
        return TokenRules(self.oidc_issuer, self.oidc_audience, self.oidc_user_claim, users)


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


class LogSection(Struct, frozen=True, kw_only=True):
    """`[log]`: the log on standard error."""

    level: Annotated[Literal["debug", "info", "warning", "error"], Meta(description="the least level shown")] = "info"
    format: Annotated[Literal["text", "json"], Meta(description="one line of text, or one JSON object a line")] = "text"
    story: Annotated[
        str,
        Meta(
            max_length=1024,
            description="topics and groups to trace at level debug, as in `topic:orders,group:g1`, or `all`; "
            "empty: all of them where `level` is debug, else none",
        ),
    ] = ""


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
        if self.http.tls_key and not self.http.tls_cert:
            raise ConfigError("http.tls_key has no meaning without http.tls_cert", hint="set http.tls_cert, too")
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
                _check_version(key, text, address)
            if not self.insecure and not self._is_protected(key) and not is_loopback(address.host):
                if not is_ip(address.host) and ":" not in text:
                    raise ConfigError(
                        f"{key} = {text!r} has no port, and {text.strip()!r} is not an address of this machine",
                        hint=f"write host:port, as in 127.0.0.1:{port}",
                    )
                raise _unprotected(key, text)
        token = self.http.token.strip()
        if token and (bits := estimate_bits(token)) < MIN_BITS and not self.insecure:
            raise ConfigError(
                f"http.token can be guessed: its {len(token)} characters have {bits:.0f} random bits at most, "
                f"{MIN_BITS} are needed; repeats and words count little",
                hint="give what `python3 -c 'import secrets; print(secrets.token_urlsafe())'` prints, "
                "or set `insecure = true` to allow this one",
            )
        if self.log.story:
            TraceFilter.parse(self.log.story)
        for key, text, port in (
            ("master.advertised", self.master.advertised, DEFAULT_MASTER_PORT),
            ("broker.advertised", self.broker.advertised, DEFAULT_BROKER_PORT),
            *(("broker.masters", master, DEFAULT_MASTER_PORT) for master in self.broker.masters),
        ):
            if text:
                _check_version(key, text, parse_address(key, text, default_port=port))
        return self


def parse_address(key: str, text: str, *, default_port: int) -> Address:
    """Return the address in the setting `key`.

    Raises:
        ConfigError: it is not an address.
    """
    try:
        return Address.parse(text, default_port=default_port)
    except FormatError as error:
        raise ConfigError(f"{key} = {text!r} is not an address", hint=error.hint) from error


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


def _check_version(key: str, text: str, address: Address) -> None:
    """Refuse an IPv6 address: the protocol writes addresses as host:port between colons and has no form for it."""
    if ":" in address.host:
        raise ConfigError(
            f"{key} = {text!r} is an IPv6 address, which the protocol cannot carry",
            hint="give an IPv4 address, or a host name that has one",
        )


def is_loopback(host: str) -> bool:
    """True if a listening host is this machine's own, reachable from nowhere else."""
    return host == "localhost" or (is_ip(host) and ipaddress.ip_address(host).is_loopback)


def is_ip(host: str) -> bool:
    """True if a host is given as an address and not as a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
