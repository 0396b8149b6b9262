"""Settings of authentication: its mode, secrets, the audit trail, an OIDC issuer."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

from pytubemq.errors import ConfigError
from pytubemq.master.settings import MasterSettings
from pytubemq.security.authentication_mode import AuthenticationMode
from pytubemq.security.oidc.oidc_tokens import TokenRules

_MASTER = MasterSettings()
"""A setting that is handed on has the default of the room that uses it."""


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
