"""Settings of HTTP: addresses, certificate and token."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

from pytubemq.errors import ConfigError
from pytubemq.model import limits
from pytubemq.security.token_strength import MIN_BITS, estimate_bits

DEFAULT_HTTP_PORT = 8080


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

    def check(self) -> None:
        """Refuse a key without its certificate.

        Raises:
            ConfigError: it is given alone.
        """
        if self.tls_key and not self.tls_cert:
            raise ConfigError("http.tls_key has no meaning without http.tls_cert", hint="set http.tls_cert, too")

    def check_token(self) -> None:
        """Refuse a token that can be guessed.

        Raises:
            ConfigError: it has too few random bits.
        """
        token = self.token.strip()
        if token and (bits := estimate_bits(token)) < MIN_BITS:
            raise ConfigError(
                f"http.token can be guessed: its {len(token)} characters have {bits:.0f} random bits at most, "
                f"{MIN_BITS} are needed; repeats and words count little",
                hint="give what `python3 -c 'import secrets; print(secrets.token_urlsafe())'` prints, "
                "or set `insecure = true` to allow this one",
            )
