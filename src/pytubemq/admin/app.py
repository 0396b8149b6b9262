"""The Master's HTTP application: the JSON API v1, with other pages beside it.

The invariant: every error is answered with a problem object and its status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from pytubemq.admin.api import Api
from pytubemq.admin.problems import ApiError, on_api_error, on_crash, on_http_error, on_tube_error
from pytubemq.admin.request_checks import HostCheck
from pytubemq.errors import TubeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.routing import BaseRoute

    from pytubemq.admin.webapi.authorization import Access
    from pytubemq.master.service import MasterService


def create_app(
    master: MasterService,
    *,
    hosts: Iterable[str] = (),
    pages: Iterable[BaseRoute] = (),
    access: Access | None = None,
) -> Starlette:
    """Return the API of `master`; `hosts` are the names under which it may be called beside loopback addresses.

    `pages` are served beside it. A change must pass `access`.
    """
    return Starlette(
        routes=[*Api(master, access).routes(), *pages],
        middleware=[Middleware(HostCheck, hosts=tuple(hosts))],
        exception_handlers={
            ApiError: on_api_error,
            TubeError: on_tube_error,
            HTTPException: on_http_error,
            Exception: on_crash,
        },
    )
