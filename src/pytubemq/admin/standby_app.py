"""The HTTP application of a standby Master.

The invariant: it serves no records, which it has not loaded, and names the Master that leads, also to those who ask for
its health; `/metrics` says that it does not lead.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route

from pytubemq.admin.problems import ApiError, on_api_error, on_crash, on_http_error
from pytubemq.admin.request_checks import HostCheck
from pytubemq.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.requests import Request

_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


def create_standby_app(leader: Callable[[], str], *, hosts: Iterable[str] = ()) -> Starlette:
    """Return the application; `leader` returns the leading Master's address, blank while none is known to lead."""

    async def metrics(_: Request) -> Response:
        text = "# HELP pytubemq_master_leader 1 while this Master leads\n# TYPE pytubemq_master_leader gauge\n"
        return Response(f"{text}pytubemq_master_leader 0.0\n", media_type="text/plain; version=0.0.4")

    async def refuse(_: Request) -> Response:
        named = leader()
        raise ApiError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "this Master stands by",
            why=f"{named} leads" if named else "no Master is known to lead",
            hint="send the request to the HTTP address of the Master that leads",
            exit_code=ExitCode.UNREACHABLE,
            retriable=True,
        )

    return Starlette(
        routes=[
            Route("/metrics", metrics),
            Route("/{path:path}", refuse, methods=_METHODS),
        ],
        middleware=[Middleware(HostCheck, hosts=tuple(hosts))],
        exception_handlers={ApiError: on_api_error, HTTPException: on_http_error, Exception: on_crash},
    )
