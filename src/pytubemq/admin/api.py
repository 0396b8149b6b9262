"""The request handlers of the JSON API v1.

The invariant: a request is only translated; each change is a function of the Master's, so whatever the API can do can
be done without it.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from pytubemq.admin.bodies import (
    Adoption,
    ChangedDefaults,
    ChangedTopic,
    NewReset,
    NewTopic,
    NewTopics,
    changes_of,
    policy_of,
)
from pytubemq.admin.openapi import describe
from pytubemq.admin.problems import ApiError
from pytubemq.admin.request_checks import read_body
from pytubemq.admin.users import UserApi
from pytubemq.admin.webapi.params import CallError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from pytubemq.admin.webapi.authorization import Access
    from pytubemq.master.service import MasterService

PREFIX = "/api/v1"


class Api:
    """The API of one Master; a change must pass `access`."""

    def __init__(self, master: MasterService, access: Access | None) -> None:
        self._master = master
        self._access = access

    def routes(self) -> list[Route]:
        """Return the routes of the API."""
        master = self._master
        return [
            Route(f"{PREFIX}/health", self.health),
            Route(f"{PREFIX}/cluster", _all_of(master.cluster)),
            Route(f"{PREFIX}/cluster/defaults", _all_of(master.defaults), methods=["GET"]),
            Route(f"{PREFIX}/cluster/defaults", self.alter_defaults, methods=["PATCH"]),
            Route(f"{PREFIX}/cluster/adopt", self.adopt_topics, methods=["POST"]),
            Route(f"{PREFIX}/topics", _all_of(master.topics), methods=["GET"]),
            Route(f"{PREFIX}/topics", self.create_topic, methods=["POST"]),
            Route(f"{PREFIX}/topics:batch", self.create_topics, methods=["POST"]),
            Route(f"{PREFIX}/topics/{{name}}", _one_of(master.topic), methods=["GET"]),
            Route(f"{PREFIX}/topics/{{name}}", self.alter_topic, methods=["PATCH"]),
            Route(f"{PREFIX}/topics/{{name}}", self.delete_topic, methods=["DELETE"]),
            Route(f"{PREFIX}/brokers", _all_of(master.brokers)),
            Route(f"{PREFIX}/groups", _all_of(master.groups)),
            Route(f"{PREFIX}/groups/{{name}}", self.group),
            Route(f"{PREFIX}/groups/{{name}}/resets", _one_of(master.group_resets), methods=["GET"]),
            Route(f"{PREFIX}/groups/{{name}}/resets", self.reset_group, methods=["POST"]),
            *UserApi(master, self._check_token).routes(PREFIX),
            Route(f"{PREFIX}/openapi.json", self.openapi),
        ]

    async def health(self, _: Request) -> Response:
        """Respond with 200 if the cluster is healthy, else 503."""
        found = await self._master.health()
        return _json(found, HTTPStatus.OK if found.status == "healthy" else HTTPStatus.SERVICE_UNAVAILABLE)

    async def openapi(self, _: Request) -> Response:
        """Respond with the description of the API."""
        return _json(describe(self._master.version))

    async def create_topic(self, request: Request) -> Response:
        """Create a topic; respond with 201 when it can be used."""
        self._check_token(request)
        new = await read_body(request, NewTopic)
        made = await self._master.create_topic(
            new.name,
            new.partitions,
            max_message_bytes=new.max_message_bytes,
            delete_policy=policy_of(new),
            durability=new.durability,
        )
        return _json(made, HTTPStatus.CREATED)

    async def adopt_topics(self, request: Request) -> Response:
        """Return 200 with the topics that were taken over."""
        self._check_token(request)
        wanted = await read_body(request, Adoption)
        return _json(await self._master.adopt_topics(discard=wanted.discard))

    async def create_topics(self, request: Request) -> Response:
        """Return 201 when all topics are ready to use, 200 when all existed already."""
        self._check_token(request)
        wanted = await read_body(request, NewTopics)
        made = await self._master.create_topics(changes_of(wanted), exist_ok=wanted.exist_ok)
        return _json(made, HTTPStatus.CREATED if made.created else HTTPStatus.OK)

    async def alter_topic(self, request: Request) -> Response:
        """Change a topic; keys that the body does not name stay."""
        self._check_token(request)
        change = await read_body(request, ChangedTopic)
        altered = await self._master.alter_topic(
            request.path_params["name"],
            partitions=change.partitions,
            max_message_bytes=change.max_message_bytes,
            delete_policy=policy_of(change),
            durability=change.durability,
        )
        return _json(altered)

    async def delete_topic(self, request: Request) -> Response:
        """Delete a topic; respond with 202 if Brokers are still removing it."""
        self._check_token(request)
        found = await self._master.delete_topic(request.path_params["name"])
        return _json(found, HTTPStatus.OK if found.removed else HTTPStatus.ACCEPTED)

    async def alter_defaults(self, request: Request) -> Response:
        """Change the cluster's defaults; keys that the body does not name stay."""
        self._check_token(request)
        change = await read_body(request, ChangedDefaults)
        altered = await self._master.alter_defaults(
            max_message_bytes=change.max_message_bytes,
            delete_policy=policy_of(change),
            durability=change.durability,
        )
        return _json(altered)

    async def group(self, request: Request) -> Response:
        """Return a group; with `topic` in the query also one that does not exist."""
        topic = request.query_params.get("topic")
        return _json(await self._master.group(request.path_params["name"], topic=topic))

    async def reset_group(self, request: Request) -> Response:
        """Reset a group. A dry run changes nothing and needs no token."""
        wanted = await read_body(request, NewReset)
        if not wanted.dry_run:
            self._check_token(request)
        moved = await self._master.reset_group(
            request.path_params["name"],
            wanted.topic,
            wanted.to,
            partitions=wanted.partitions,
            dry_run=wanted.dry_run,
            **({} if wanted.user is None else {"user": wanted.user}),
        )
        return _json(moved)

    def _check_token(self, request: Request) -> None:
        if self._access is None:
            return
        try:
            self._access.check(modify=True, headers=request.headers, query={}, form={})
        except CallError as error:
            raise ApiError(
                HTTPStatus.UNAUTHORIZED,
                error.text,
                "a change needs the token of this server, unless it has none and only this machine can reach it",
                "send Authorization: Bearer TOKEN; the command line takes it from the variable PYTUBEMQ_TOKEN",
            ) from None


def _all_of(function: Callable[[], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_: Request) -> Response:
        return _json(await function())

    return answer


def _one_of(function: Callable[[str], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return _json(await function(request.path_params["name"]))

    return answer


def _json(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
