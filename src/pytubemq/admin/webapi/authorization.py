"""The permission to change something.

The invariants: the token is compared in constant time and is in no log and no response; without a token, changes are
accepted only where nobody but this machine can connect; a request from another site's page changes nothing.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytubemq.admin.access.origin import is_cross_site
from pytubemq.admin.webapi.params import CallError
from pytubemq.model.limits import MAX_TOKEN_CHARS
from pytubemq.security.oidc.oidc_tokens import is_signed_token

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKEN_NAMES = ("confModAuthToken", "authToken")


@dataclass(frozen=True, slots=True)
class Access:
    """The conditions under which a server accepts changes.

    `token` is blank where there is none; `in_url` allows it in the address of a request; `local` is true if only this
    machine can reach the server; `exposure` is shown on its pages: what its settings leave open, blank if nothing.
    """

    token: str = field(default="", repr=False)
    in_url: bool = True
    local: bool = True
    exposure: str = ""

    def check(
        self, *, modify: bool, headers: Mapping[str, str], query: Mapping[str, str], form: Mapping[str, str]
    ) -> None:
        """Check that a call may be made. A query needs no token, but a wrong one is refused. Raises CallError."""
        if modify and is_cross_site(headers):
            raise CallError("a page of another site asked for this change: call from a program, or from this server")
        given = self.given(headers, query, form)
        if modify and not self.token and not self.local:
            raise CallError(
                "changes are refused, since this server is open to other machines and has no token: set `token` in "
                "[http] of its settings"
            )
        if self.token and modify and not given:
            raise CallError("the token is missing: give confModAuthToken, or the header Authorization: Bearer")
        if self.token and not all(_is_same(one, self.token) for one in given):
            raise CallError("the token is wrong: it must be `token` in [http] of this server's settings")

    def given(self, headers: Mapping[str, str], query: Mapping[str, str], form: Mapping[str, str]) -> list[str]:
        """Return all tokens of a request, wherever they are: every one of them must be right."""
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        found = [bearer] if scheme.lower() == "bearer" else []
        found += [form[name] for name in TOKEN_NAMES if name in form]
        for name in TOKEN_NAMES:
            text = query.get(name, "").strip()
            if is_signed_token(text) and not _is_same(text, self.token):
                raise CallError(
                    f"{name} is in the address and has an access token, which others could read there: send it as the "
                    "header Authorization: Bearer"
                )
            if text and not self.in_url:
                raise CallError(
                    f"{name} is in the address, which this server does not accept (`token_in_url` in [http]): "
                    "send it in a form, or as the header Authorization: Bearer"
                )
            found.append(text)
        return [_bounded(token.strip()) for token in found if token.strip()]


def _is_same(token: str, other: str) -> bool:
    return hmac.compare_digest(token.encode(), other.encode())


def _bounded(token: str) -> str:
    # Whoever verifies signed ones has a limit of its own, and says why it refuses one.
    if len(token) > MAX_TOKEN_CHARS and not is_signed_token(token):
        raise CallError(f"the token has more than {MAX_TOKEN_CHARS} characters")
    return token
