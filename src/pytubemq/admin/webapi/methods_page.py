"""Pages for a browser that list the methods of a server.

The invariant: a program gets none of them, because it names a method or does not ask for HTML.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pytubemq.admin.index_page import Entry, page_of, render

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from starlette.requests import Request
    from starlette.responses import Response

    from pytubemq.admin.webapi.method import Table

    Endpoint = Callable[[Request], Awaitable[Response]]

_CHANGES: Final = "a change; needs the token if one is set"


def or_methods(title: str, path: str, table: Table[Any], endpoint: Endpoint, *, exposure: str = "") -> Endpoint:
    """Return `endpoint` with a page of methods for a browser that names none; `path` is where they are called."""
    page = render(title, {f"Methods of {path}": list(method_entries(path, table))}, exposure=exposure)

    async def answer(request: Request) -> Response:
        return page_of(page) if is_visit(request) else await endpoint(request)

    return answer


def is_visit(request: Request) -> bool:
    """Return True if an address was typed into a browser, without any parameter."""
    asks_for_html = "text/html" in request.headers.get("accept", "")
    return request.method == "GET" and not request.scope["query_string"] and asks_for_html


def method_entries(path: str, table: Table[Any]) -> Iterable[Entry]:
    """Yield a line for each method; one that changes nothing and needs no parameter is a link."""
    for method in sorted(table.methods, key=lambda method: method.name):
        needed = [param.name for param in method.params if param.required]
        about = method.about
        if needed:
            about += f" Needs {', '.join(needed)}."
        if method.modify:
            about += f" ({_CHANGES})"
        yield Entry(method.name, about, None if needed or method.modify else f"{path}?method={method.name}")
