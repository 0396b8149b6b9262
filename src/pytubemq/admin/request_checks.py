"""Checks of a request before it is handled.

The invariants: a web page of another site cannot make a browser administer the cluster (its Host is not ours, and a
form cannot send JSON); a body is read up to a limit and no further.
"""

from __future__ import annotations

from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from pytubemq.admin.problems import ApiError, on_api_error
from pytubemq.model.limits import MAX_HTTP_BODY_BYTES
from pytubemq.model.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Receive, Scope, Send

T = TypeVar("T", bound=msgspec.Struct)

LOCAL_NAMES = frozenset({"localhost"})
EVERYWHERE = frozenset({"0.0.0.0", "::"})


class HostCheck:
    """Lets requests pass whose host is this machine: a loopback address, or one of `hosts`.

    If `hosts` has an address that means all (`0.0.0.0`, `::`), any address passes, but no name: a page that
    misuses a browser has a name of its own as Host.
    """

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._any_address = not self._hosts.isdisjoint(EVERYWHERE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request = Request(scope)
            host = host_name(request.headers.get("host", ""))
            if not (is_local(host) or host in self._hosts or (self._any_address and is_address(host))):
                error = ApiError(
                    HTTPStatus.MISDIRECTED_REQUEST,
                    f"{host} is not an address of this server" if host else "the request names no host",
                    "the Host of a request must be this server's own address, so that no web page can misuse it",
                    "use the address that the server printed when it started",
                )
                answer = await on_api_error(request, error)
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)


def host_name(host: str) -> str:
    """Return the name in a Host header, without its port."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def is_local(host: str) -> bool:
    """True if a host name means this machine on every machine."""
    if host in LOCAL_NAMES:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_address(host: str) -> bool:
    """True if a host is given as an address and not as a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


async def read_body(request: Request, kind: type[T]) -> T:
    """Return the JSON body of a request as a `kind`.

    Raises:
        ApiError: not JSON by its header or its bytes, too long, an unknown key, a wrong type.
    """
    value = await read_object(request)
    _check_keys(value, kind)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _bad(f"the body does not fit: {error}", "GET /api/v1/openapi.json has the types") from error


async def read_object(request: Request, *, most_bytes: int = MAX_HTTP_BODY_BYTES) -> dict[str, Any]:
    """Return the JSON object in the body of a request.

    Raises:
        ApiError: not JSON by its header or its bytes, or too long.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise ApiError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"the body is {content_type or 'of no named type'}",
            "only JSON is accepted, and only with its content type",
            "send Content-Type: application/json",
        )
    body = await read_bounded(request, most_bytes)
    try:
        value = msgspec.json.decode(body)
    except UnicodeDecodeError as error:
        raise _bad(f"the body is not UTF-8 at byte {error.start}", "send JSON as UTF-8") from error
    except RecursionError as error:
        raise _bad("the body is nested too deeply", "send one JSON object as the API's schema describes it") from error
    except msgspec.DecodeError as error:
        raise _bad(f"the body is not JSON: {error}", "send one JSON object") from error
    if not isinstance(value, dict):
        raise _bad("the body is not a JSON object", 'send one, as in {"name": "demo"}')
    return value


def read_flag(request: Request, name: str) -> bool:
    """Return a parameter of the address that is `true` or `false`; False if it is not there. Raises ApiError."""
    text = request.query_params.get(name, "false")
    if text not in ("true", "false"):
        raise _bad(f"{name} is {text[:80]!r}", f"write {name}=true, or leave it out")
    return text == "true"


async def read_bounded(request: Request, most_bytes: int = MAX_HTTP_BODY_BYTES) -> bytes:
    """Return the body of a request, also a second time. Raises ApiError: it is too long, or the connection ended."""
    known: bytes | None = getattr(request.state, "body", None)
    if known is not None:
        return known
    parts: list[bytes] = []
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > most_bytes:
                raise ApiError(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                    f"the body is longer than {most_bytes} bytes",
                    "bodies are bounded",
                    "send a shorter body",
                )
            parts.append(part)
    except ClientDisconnect as error:  # nobody receives this; it only ends the request without a trace in the log
        raise _bad("the connection ended before the body did", "send it whole") from error
    request.state.body = b"".join(parts)
    return b"".join(parts)


def _check_keys(value: dict[str, object], kind: type[msgspec.Struct]) -> None:
    known = kind.__struct_encode_fields__
    for key in value:
        if key not in known:
            near = suggest(key, known)
            raise _bad(f"unknown key {key!r}", f"did you mean {near!r}?" if near else f"known keys: {', '.join(known)}")


def _bad(message: str, hint: str) -> ApiError:
    return ApiError(HTTPStatus.BAD_REQUEST, message, "Bad Request", hint)
