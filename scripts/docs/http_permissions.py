"""The tables of docs/reference/http-permissions.md, from the tables that servers check calls by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.admin.access.method_permissions import BROKER_PERMISSIONS, TEXT_PERMISSIONS, WEBAPI_PERMISSIONS
from pytubemq.admin.access.needs import WITHOUT_NAMES, HttpNeed
from pytubemq.admin.access.route_permissions import BROKER_ROUTE_PERMISSIONS, ROUTE_PERMISSIONS
from scripts.docs.markdown import table

if TYPE_CHECKING:
    from collections.abc import Mapping


def tables() -> dict[str, str]:
    """Return the tables of routes, of methods, and of what counts where nothing is named."""
    routes = {key: row.needs for key, row in ROUTE_PERMISSIONS.items()}
    broker_routes = {key: row.needs for key, row in BROKER_ROUTE_PERMISSIONS.items()}
    return {
        "routes": _rows("method and path", routes),
        "broker routes": _rows("method and path", broker_routes),
        "webapi": _rows("method", WEBAPI_PERMISSIONS),
        "text": _rows("`type`", TEXT_PERMISSIONS),
        "broker": _rows("method", BROKER_PERMISSIONS),
        "without names": table(
            ("instead of, on each topic and group", "on the cluster"),
            [(f"`{operation}`", f"`{instead}`") for operation, instead in WITHOUT_NAMES.items()],
        ),
    }


def _rows(head: str, found: Mapping[str, tuple[HttpNeed, ...]]) -> str:
    return table((head, "needs"), [(f"`{name}`", "; ".join(map(_words, needs))) for name, needs in found.items()])


def _words(need: HttpNeed) -> str:
    subject = need.subject.value
    return subject if need.operation is None else f"`{need.operation}` on {subject}"
