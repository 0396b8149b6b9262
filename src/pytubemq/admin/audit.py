"""The request handlers of the JSON API for the audit trail, and for the stories that are partly made of it."""

from __future__ import annotations

import json
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from pytubemq.admin.problems import ApiError
from pytubemq.master.views import AuditView, iso
from pytubemq.model.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request

    from pytubemq.master.service import MasterService
    from pytubemq.model.records import AuditRecord

DEFAULT_LIMIT: Final = 100
MOST: Final = 1_000
_FILTERS: Final = ("user", "target", "since", "limit")
_SPAN: Final = ("since", "limit")
_MOST_DIGITS: Final = 10


class AuditApi:
    """The part of the API about the audit trail."""

    def __init__(self, master: MasterService) -> None:
        self._master = master

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes below a prefix."""
        return [Route(f"{prefix}/audit", self.list_entries, methods=["GET"])]

    async def list_entries(self, request: Request) -> Response:
        """Return the newest entries first, filtered by user, target, time and number."""
        query = _checked(request.query_params, _FILTERS)
        found = self._master.catalogue.audit.find(
            user=query.get("user"), target=query.get("target"), since_ms=_since_ms(query), limit=_limit(query)
        )
        return Response(msgspec.json.encode([view_of(entry) for entry in found]), media_type="application/json")


class StoryApi:
    """The part of the API about what happened to groups and Brokers."""

    def __init__(self, master: MasterService) -> None:
        self._master = master

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes below a prefix."""
        return [
            Route(f"{prefix}/groups/{{name}}/story", self.of_group, methods=["GET"]),
            Route(f"{prefix}/brokers/{{id}}/story", self.of_broker, methods=["GET"]),
        ]

    async def of_group(self, request: Request) -> Response:
        """Return the story of a group, the newest entries first."""
        query = _checked(request.query_params, _SPAN)
        found = await self._master.group_story(
            request.path_params["name"], since_ms=_since_ms(query), limit=_limit(query)
        )
        return Response(msgspec.json.encode(found), media_type="application/json")

    async def of_broker(self, request: Request) -> Response:
        """Return the story of a Broker, the newest entries first."""
        query = _checked(request.query_params, _SPAN)
        text = request.path_params["id"]
        if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
            raise _bad(f"{text[:80]!r} is not the id of a Broker", "give a number")
        found = await self._master.broker_story(int(text), since_ms=_since_ms(query), limit=_limit(query))
        return Response(msgspec.json.encode(found), media_type="application/json")


def view_of(entry: AuditRecord) -> AuditView:
    """Return the view of an entry."""
    return AuditView(
        id=entry.entry_id,
        time=iso(entry.stamp.create_ms),
        user=entry.stamp.create_user,
        host=entry.host,
        action=entry.action,
        target=entry.target,
        outcome=entry.outcome,
        before=_state(entry.before),
        after=_state(entry.after),
    )


def _checked(query: Mapping[str, str], filters: Sequence[str]) -> Mapping[str, str]:
    """Return the filters of a request. Raises ApiError: one is unknown."""
    for name in query:
        if name not in filters:
            near = suggest(name, filters)
            raise _bad(f"there is no filter {name[:80]!r}", f"did you mean {near}?" if near else ", ".join(filters))
    return query


def _state(text: str) -> dict[str, object]:
    found = json.loads(text)
    return found if isinstance(found, dict) else {}


def _since_ms(query: Mapping[str, str]) -> int:
    text = query.get("since")
    if text is None:
        return 0
    try:
        since = datetime.fromisoformat(text)
        if since.tzinfo is None:
            raise ValueError
        return int(since.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise _bad(
            f"since is no time with its zone: {text[:80]!r}", "write it as 2026-01-31T12:00:00Z (ISO 8601)"
        ) from None


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", str(DEFAULT_LIMIT))
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:10]) <= MOST):
        raise _bad(f"limit is {text[:80]!r}", f"give a number from 1 to {MOST:,}")
    return int(text)


def _bad(message: str, hint: str) -> ApiError:
    return ApiError(HTTPStatus.BAD_REQUEST, message, HTTPStatus.BAD_REQUEST.phrase, hint)
