"""Pages for a browser that list a server's addresses.

The invariant: all text is escaped, and a page neither loads nor runs anything.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.responses import Response
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.requests import Request

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_STYLE: Final = (
    "body{font:15px/1.5 sans-serif;margin:2em auto;max-width:60em;padding:0 1em}"
    "td{padding:.15em 1em .15em 0;vertical-align:top}code{font-size:14px}"
)


class Entry(NamedTuple):
    """A line of a page; without `href` it shows the name alone."""

    name: str
    about: str
    href: str | None = None


def link(path: str, about: str) -> Entry:
    """Return an entry that links to an address of this server."""
    return Entry(path, about, path)


MASTER_LINKS: Final = {
    "Health": (
        link("/api/v1/health", "the verdict, with reasons"),
        link("/metrics", "Prometheus metrics"),
    ),
    "Data (JSON)": (
        link("/api/v1/cluster", "Masters, Brokers, versions"),
        link("/api/v1/topics", "topics"),
        link("/api/v1/brokers", "Brokers"),
        link("/api/v1/groups", "groups with their lag"),
        link("/api/v1/cluster/defaults", "the cluster's defaults for topics"),
        link("/api/v1/openapi.json", "all of the API, described"),
    ),
    "The original's page": (link("/webapi.htm", "its methods"),),
}
BROKER_LINKS: Final = {
    "Health": (
        link("/health", "the state of each part, with reasons"),
        link("/metrics", "Prometheus metrics"),
    ),
    "The original's page": (link("/broker.htm", "its methods: offsets of groups, stores, messages"),),
}


def index_route(title: str, sections: Mapping[str, Iterable[Entry]], *, exposure: str = "") -> Route:
    """Return the route `/` of a server: links to its pages."""
    page = render(title, sections, exposure=exposure)

    async def answer(_: Request) -> Response:
        return page_of(page)

    return Route("/", answer, methods=["GET"])


def render(title: str, sections: Mapping[str, Iterable[Entry]], *, exposure: str = "") -> str:
    """Return the page as HTML; `exposure` stands above everything else."""
    notice = f"<p><strong>{escape(exposure)}</strong></p>" if exposure else ""
    body = "".join(
        f"<h2>{escape(name)}</h2><table>{''.join(map(_row, rows))}</table>" for name, rows in sections.items()
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1>{notice}{body}</html>\n"
    )


def page_of(page: str) -> Response:
    """Return the response with a page."""
    return Response(page, media_type="text/html", headers=_HEADERS)


def _row(entry: Entry) -> str:
    name = f"<code>{escape(entry.name)}</code>"
    if entry.href is not None:
        name = f'<a href="{escape(entry.href)}">{name}</a>'
    return f"<tr><td>{name}</td><td>{escape(entry.about)}</td></tr>"
