"""Errors as the API shows them: one object, one shape, the HTTP status that fits.

The invariant: every error response is `{"code", "message", "why", "try", "retriable", "exit"}`, and nothing internal
(no trace, no path) gets out.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match, Route

from pytubemq.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConfigError,
    DatabaseReadOnlyError,
    DatabaseTimeoutError,
    DatabaseUnreachableError,
    ExitCode,
    FencedError,
    MessageError,
    NotAllowedError,
    NotFoundError,
    RefusedError,
    StorageError,
    TransportError,
    TubeError,
    UnavailableError,
)

if TYPE_CHECKING:
    from starlette.requests import Request

logger = logging.getLogger(__name__)

_STATUS: tuple[tuple[type[TubeError], HTTPStatus], ...] = (
    (AlreadyExistsError, HTTPStatus.CONFLICT),
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (NotAllowedError, HTTPStatus.FORBIDDEN),
    (BadRequestError, HTTPStatus.BAD_REQUEST),
    (MessageError, HTTPStatus.BAD_REQUEST),
    (ConfigError, HTTPStatus.BAD_REQUEST),
    (UnavailableError, HTTPStatus.SERVICE_UNAVAILABLE),
    (TransportError, HTTPStatus.GATEWAY_TIMEOUT),
    (RefusedError, HTTPStatus.CONFLICT),
    (DatabaseReadOnlyError, HTTPStatus.SERVICE_UNAVAILABLE),
    (DatabaseTimeoutError, HTTPStatus.SERVICE_UNAVAILABLE),
    (DatabaseUnreachableError, HTTPStatus.SERVICE_UNAVAILABLE),
    (FencedError, HTTPStatus.SERVICE_UNAVAILABLE),
    (StorageError, HTTPStatus.INSUFFICIENT_STORAGE),
)


@dataclass(slots=True)
class ApiError(Exception):
    """A request that the API itself refuses."""

    status: HTTPStatus
    message: str
    why: str = ""
    hint: str = ""
    exit_code: ExitCode = ExitCode.USAGE
    retriable: bool = False
    headers: dict[str, str] = field(default_factory=dict)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error: `code` is the protocol's or the HTTP status, `exit` the exit code for a command."""

    code: int
    message: str
    why: str
    try_: str = msgspec.field(name="try")
    retriable: bool
    exit: int


async def on_api_error(_: Request, error: Exception) -> Response:
    """Respond to a request that the API refuses."""
    assert isinstance(error, ApiError)
    return _answer(
        error.status,
        Problem(
            code=int(error.status),
            message=error.message,
            why=error.why,
            try_=error.hint,
            retriable=error.retriable,
            exit=int(error.exit_code),
        ),
        headers=error.headers,
    )


async def on_tube_error(_: Request, error: Exception) -> Response:
    """Respond to a request that the Master refuses, or cannot serve."""
    assert isinstance(error, TubeError)
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)
    return _answer(
        status,
        Problem(
            code=int(status) if error.code is None else error.code,
            message=error.message,
            why=type(error).__name__.removesuffix("Error"),
            try_=error.hint or "",
            retriable=error.retriable,
            exit=int(error.exit_code),
        ),
    )


async def on_http_error(request: Request, error: Exception) -> Response:
    """Respond to an unknown path or method."""
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    problem = Problem(
        code=int(status),
        message=error.detail,
        why=status.phrase,
        try_="GET /api/v1/openapi.json lists the paths; the original's calls are at /webapi.htm?method=...",
        retriable=False,
        exit=int(ExitCode.NOT_FOUND if status is HTTPStatus.NOT_FOUND else ExitCode.USAGE),
    )
    headers = dict(error.headers or {})
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_methods_of(request))
    return _answer(status, problem, headers=headers)


def _methods_of(request: Request) -> list[str]:
    """Return the methods of all routes to the path of a request: the framework names those of the first alone."""
    found: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return sorted(found)


async def on_crash(request: Request, error: Exception) -> Response:
    """Respond to a fault of ours: the log has the trace, the response does not."""
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _answer(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        Problem(
            code=500,
            message="the Master failed at this request",
            why=type(error).__name__,
            try_="the Master's log says more",
            retriable=False,
            exit=int(ExitCode.FAILED),
        ),
    )


def _answer(status: HTTPStatus, problem: Problem, *, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(problem), status, headers=headers, media_type="application/json")
