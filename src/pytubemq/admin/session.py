"""The request handlers of the JSON API for sessions: to sign in, to sign out, and to show the caller."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from pytubemq.admin.access.origin import clear_session, is_cross_site, session_token, set_session
from pytubemq.admin.bodies import SignIn
from pytubemq.admin.problems import ApiError
from pytubemq.admin.request_checks import read_body
from pytubemq.errors import ExitCode
from pytubemq.master.access.http.http_access import SignInRefusedError, TooManySignInsError
from pytubemq.master.access.http.web_sessions import LONGEST_S
from pytubemq.master.views import SessionView
from pytubemq.security.authentication_mode import AuthenticationMode
from pytubemq.security.secret import Secret

if TYPE_CHECKING:
    from starlette.requests import Request

    from pytubemq.admin.access.gate import Gate
    from pytubemq.master.access.http.http_access import HttpIdentity


class SessionApi:
    """The part of the API about the caller itself."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes below a prefix."""
        path = f"{prefix}/session"
        return [
            Route(path, self.show, methods=["GET"]),
            Route(path, self.sign_in, methods=["POST"]),
            Route(path, self.sign_out, methods=["DELETE"]),
        ]

    async def show(self, request: Request) -> Response:
        """Return the caller and its permissions."""
        identity: HttpIdentity | None = request.state.caller.identity
        if identity is None:
            raise ApiError(
                HTTPStatus.UNAUTHORIZED,
                "nobody was identified",
                "this server does not require it",
                "sign in, or send a token",
                ExitCode.REFUSED,
            )
        return _json(view_of(identity))

    async def sign_in(self, request: Request) -> Response:
        """Open a session for a user and its password; respond with 201 and the cookie."""
        http = self._gate.http
        if http is None or http.mode is AuthenticationMode.OFF:
            raise ApiError(
                HTTPStatus.CONFLICT,
                "authentication is off at this server, so there is nobody to sign in as",
                "sessions are for users",
                "set security.authentication to permissive or enforced",
            )
        if is_cross_site(request.headers):
            raise ApiError(
                HTTPStatus.FORBIDDEN,
                "a page of another site asked for this",
                "only a page of this server, or a program, may sign in",
                "call from this server",
                ExitCode.REFUSED,
            )
        given = await read_body(request, SignIn)
        host = "?" if request.client is None else request.client.host
        try:
            token = await http.sign_in(given.user, Secret(given.password), host)
        except SignInRefusedError:
            raise ApiError(
                HTTPStatus.UNAUTHORIZED,
                "the user or its password is wrong",
                "Unauthorized",
                "an administrator gives a user a password with `pytubemq user password NAME`",
                ExitCode.REFUSED,
            ) from None
        except TooManySignInsError as error:
            raise ApiError(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"too many attempts to sign in: wait {error.retry_after_s} s",
                "Too Many Requests",
                "try again after that time",
                ExitCode.REFUSED,
                retriable=True,
                headers={"Retry-After": str(error.retry_after_s)},
            ) from None
        if previous := session_token(request):
            http.sessions.close(previous)
        identity = http.by_session(token)
        assert identity is not None
        response = _json(view_of(identity), HTTPStatus.CREATED)
        set_session(request, response, token, longest_s=LONGEST_S)
        return response

    async def sign_out(self, request: Request) -> Response:
        """End the session of the request's cookie; a token is not touched."""
        if self._gate.http is not None and (token := session_token(request)):
            self._gate.http.sessions.close(token)
        response = Response(status_code=HTTPStatus.NO_CONTENT)
        clear_session(request, response)
        return response


def view_of(identity: HttpIdentity) -> SessionView:
    """Return the view of a caller."""
    return SessionView(
        user=identity.user, proof=identity.proof.name.lower(), permissions=[str(one) for one in identity.permissions]
    )


def _json(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    headers = {"Cache-Control": "no-store"}
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")
