"""Routes with the check before them, and with the audit trail of what they change.

The invariants: a route is served only if it has a row in the table; whatever a call changes is attributed to who made
it, and a call that changed no record has an entry of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.routing import Route

from pytubemq.admin.access.gate import Caller
from pytubemq.admin.access.needs import SIGNED_IN, Names, Row, Subject
from pytubemq.master.catalogue.audit_trail import ChangeOrigin, NotedCall, change_of
from pytubemq.security.authentication_mode import AuthenticationMode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from pytubemq.admin.access.gate import Gate

    Endpoint = Callable[[Request], Awaitable[Response]]
    NamesOf = Callable[[Request], Awaitable[Names]]

_NAMELESS: Final = frozenset({Subject.SIGNED_IN, Subject.LISTED, Subject.THE_CLUSTER})
_READS: Final = frozenset({"GET", "HEAD"})


def guard(
    routes: Iterable[BaseRoute],
    gate: Gate,
    table: Mapping[str, Row],
    names_of: Mapping[str, NamesOf],
    *,
    is_dry_run: Callable[[Request], Awaitable[bool]] | None = None,
) -> list[Route]:
    """Return routes with the check of their rows before them.

    Args:
        routes: the routes.
        gate: the check.
        table: the rows, by method and path as in `GET /metrics`.
        names_of: what the calls name whose names are not in their path.
        is_dry_run: whether a request only shows what would change.

    Raises:
        ValueError: a route has no row.
    """
    found = []
    for route in routes:
        if not isinstance(route, Route):
            raise ValueError(f"{route!r} is no route with a row")
        rows = {}
        for method in sorted((route.methods or {"GET"}) - {"HEAD"}):
            key = f"{method} {route.path}"
            if key not in table:
                raise ValueError(f"{key} has no row in the table of permissions")
            rows[method] = table[key]
        rows.setdefault("HEAD", rows.get("GET", Row(())))
        endpoint = _guarded(route.path, route.endpoint, gate, rows, names_of, is_dry_run)
        found.append(Route(route.path, endpoint, methods=sorted(route.methods or {"GET"}), name=route.name))
    return found


def _guarded(
    path: str,
    endpoint: Endpoint,
    gate: Gate,
    rows: Mapping[str, Row],
    names_of: Mapping[str, NamesOf],
    is_dry_run: Callable[[Request], Awaitable[bool]] | None,
) -> Endpoint:
    async def answer(request: Request) -> Response:
        row = rows[request.method]
        if row.needs[0].subject in (Subject.ANYONE, Subject.ITS_METHOD):
            return await endpoint(request)
        changes, what, names = request.method not in _READS, f"{request.method} {path}", Names()
        if gate.mode is AuthenticationMode.OFF:
            row = await _without_dry_run(row, request, is_dry_run)
            if not row.guarded:
                request.state.caller = Caller(request, None)
                return await endpoint(request)
        caller = await gate.enter(request, guarded=row.guarded, changes=changes)
        if any(need.subject not in _NAMELESS for need in row.needs):
            if gate.mode is AuthenticationMode.ENFORCED:  # before a stranger's body is looked at
                gate.authorize(caller, Row((SIGNED_IN,)), names, what=what)
            names = await names_of.get(what, names_in_path)(request)
        if gate.mode is not AuthenticationMode.OFF:
            row = await _without_dry_run(row, request, is_dry_run)
        gate.authorize(caller, row, names, what=what)
        request.state.caller = caller
        if not changes or not row.guarded or row.asks:
            return await endpoint(request)
        return await _recorded(gate, ChangeOrigin(caller.user, caller.host, what), names, endpoint, request)

    return answer


async def _without_dry_run(row: Row, request: Request, is_dry_run: Callable[[Request], Awaitable[bool]] | None) -> Row:
    """Return the row of a request; one that only shows what would change is not guarded."""
    if row.guarded and is_dry_run is not None and await is_dry_run(request):
        return Row(row.needs)
    return row


async def names_in_path(request: Request) -> Names:
    """Return the name in the path of a request to the JSON API."""
    name = request.path_params["name"]
    return Names(**{request.url.path.split("/")[3]: (name,)})


async def _recorded(gate: Gate, origin: ChangeOrigin, names: Names, endpoint: Endpoint, request: Request) -> Response:
    with change_of(origin):
        response = await endpoint(request)
    if gate.http is not None and not origin.noted and response.status_code < 400:
        names = names if named(names) or "name" not in request.path_params else await names_in_path(request)
        await gate.http.note(
            NotedCall(
                user=origin.user,
                host=origin.host,
                action=origin.action,
                target=named(names),
                before=origin.before,
                after=origin.after,
            )
        )
    return response


def named(names: Names) -> str:
    """Return what a call names, as the audit trail writes it."""
    kinds: tuple[tuple[str, Any], ...] = (("topic", names.topics), ("group", names.groups), ("user", names.users))
    return ", ".join(f"{kind} {name}" for kind, found in kinds for name in found)
