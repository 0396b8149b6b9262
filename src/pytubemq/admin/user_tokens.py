"""The request handlers of the JSON API for bearer tokens of users.

The invariants: a token is only in the response to the request that made it, which no cache keeps; a token makes no
other one, unless its user is an administrator, so a stolen one ends when it expires or is revoked.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from pytubemq.admin.bodies import NewToken
from pytubemq.admin.problems import ApiError
from pytubemq.admin.request_checks import read_body
from pytubemq.errors import ExitCode
from pytubemq.master.access.http.http_access import Proof
from pytubemq.master.views import MadeToken, TokenView, iso

if TYPE_CHECKING:
    from starlette.requests import Request

    from pytubemq.master.access.http.http_access import HttpIdentity
    from pytubemq.master.service import MasterService
    from pytubemq.model.records import UserTokenRecord

_TOKENS: Final = frozenset({Proof.BEARER_TOKEN, Proof.OIDC_TOKEN})


class UserTokenApi:
    """The part of the API about tokens."""

    def __init__(self, master: MasterService) -> None:
        self._master = master

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes below a prefix."""
        path = f"{prefix}/users/{{name}}/tokens"
        return [
            Route(path, self.list_tokens, methods=["GET"]),
            Route(path, self.create, methods=["POST"]),
            Route(f"{path}/{{token}}", self.revoke, methods=["DELETE"]),
        ]

    async def list_tokens(self, request: Request) -> Response:
        """Return the bearer tokens of a user, without their text."""
        found = self._master.registry.user_tokens.all_of(request.path_params["name"])
        return _json([view_of(record) for record in found])

    async def create(self, request: Request) -> Response:
        """Make a token; respond with 201 and the token."""
        identity: HttpIdentity | None = request.state.caller.identity
        if identity is not None and identity.proof in _TOKENS and not identity.is_admin:
            raise ApiError(
                HTTPStatus.FORBIDDEN,
                "a token cannot make another one",
                "so that a stolen one ends when it expires or is revoked",
                "sign in with the password, or ask an administrator",
                ExitCode.REFUSED,
            )
        new = await read_body(request, NewToken)
        record, secret = await self._master.registry.user_tokens.create(
            request.path_params["name"], by=self._master.change_by(new.by), days=new.days
        )
        made = MadeToken(user=record.user, id=record.token_id, token=secret.reveal(), expires_at=_expiry(record))
        return _json(made, HTTPStatus.CREATED)

    async def revoke(self, request: Request) -> Response:
        """Revoke a bearer token; respond with its view."""
        name, token_id = request.path_params["name"], request.path_params["token"]
        return _json(view_of(await self._master.registry.user_tokens.revoke(name, token_id)))


def view_of(record: UserTokenRecord) -> TokenView:
    """Return the view of a token."""
    return TokenView(
        user=record.user,
        id=record.token_id,
        created_by=record.stamp.create_user,
        created_at=iso(record.stamp.create_ms),
        expires_at=_expiry(record),
    )


def _expiry(record: UserTokenRecord) -> str | None:
    return iso(record.expires_ms) if record.expires_ms else None


def _json(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    headers = {"Cache-Control": "no-store"}
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")
