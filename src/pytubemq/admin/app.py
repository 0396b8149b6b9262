"""The Master's HTTP application: the JSON API v1, with other pages beside it.

The invariant: every error is answered with a problem object and its status.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from pytubemq.admin.access.gate import Gate
from pytubemq.admin.access.guarded_routes import guard
from pytubemq.admin.access.route_permissions import ROUTE_PERMISSIONS
from pytubemq.admin.api import NAMES_OF, Api, is_dry_run
from pytubemq.admin.problems import ApiError, on_api_error, on_crash, on_http_error, on_tube_error
from pytubemq.admin.request_checks import HostCheck
from pytubemq.admin.webapi.params import CallError
from pytubemq.errors import TubeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from pytubemq.admin.webapi.authorization import Access
    from pytubemq.master.access.http.http_access import HttpAccess
    from pytubemq.master.service import MasterService


def create_app(
    master: MasterService,
    *,
    hosts: Iterable[str] = (),
    pages: Iterable[BaseRoute] = (),
    access: Access | None = None,
    http: HttpAccess | None = None,
) -> Starlette:
    """Return the API of `master`; `hosts` are the names under which it may be called beside loopback addresses.

    `pages` are served beside it. A change must pass `access`, unless callers are identified by `http`.

    Raises:
        ValueError: a route has no row in the table of permissions.
    """
    gate = Gate(access, http)
    routes = [*Api(master, gate).routes(), *pages]
    return Starlette(
        routes=guard(routes, gate, ROUTE_PERMISSIONS, NAMES_OF, is_dry_run=is_dry_run),
        middleware=[Middleware(HostCheck, hosts=tuple(hosts))],
        exception_handlers={
            ApiError: on_api_error,
            CallError: _on_refusal,
            TubeError: on_tube_error,
            HTTPException: on_http_error,
            Exception: on_crash,
        },
    )


async def _on_refusal(request: Request, error: Exception) -> Response:
    """Respond to a call that lacks the server's token."""
    assert isinstance(error, CallError)
    refused = ApiError(
        HTTPStatus.UNAUTHORIZED,
        error.text,
        "a change needs the token of this server, unless it has none and only this machine can reach it",
        "send Authorization: Bearer TOKEN; the command line takes it from the variable PYTUBEMQ_TOKEN",
    )
    return await on_api_error(request, refused)
