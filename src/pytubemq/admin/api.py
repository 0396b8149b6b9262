"""The request handlers of the JSON API v1.

The invariant: a request is only translated; each change is a function of the Master's, so whatever the API can do can
be done without it.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from pytubemq.admin.access.needs import Names
from pytubemq.admin.audit import AuditApi, StoryApi
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
from pytubemq.admin.metadata import MetadataApi
from pytubemq.admin.openapi import describe
from pytubemq.admin.request_checks import read_body
from pytubemq.admin.session import SessionApi
from pytubemq.admin.user_tokens import UserTokenApi
from pytubemq.admin.users import UserApi
from pytubemq.master.catalogue.audit_trail import as_text, current_origin
from pytubemq.security.permissions import ResourceKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from pytubemq.admin.access.gate import Gate
    from pytubemq.master.service import MasterService

PREFIX = "/api/v1"


class Api:
    """The API of one Master; `gate` stands before its routes."""

    def __init__(self, master: MasterService, gate: Gate) -> None:
        self._master = master
        self._gate = gate

    def routes(self) -> list[Route]:
        """Return the routes of the API."""
        master = self._master
        return [
            Route(f"{PREFIX}/health", self.health),
            Route(f"{PREFIX}/cluster", _all_of(master.cluster)),
            Route(f"{PREFIX}/cluster/defaults", _all_of(master.defaults), methods=["GET"]),
            Route(f"{PREFIX}/cluster/defaults", self.alter_defaults, methods=["PATCH"]),
            Route(f"{PREFIX}/cluster/adopt", self.adopt_topics, methods=["POST"]),
            Route(f"{PREFIX}/topics", self._listed(master.topics, ResourceKind.TOPIC), methods=["GET"]),
            Route(f"{PREFIX}/topics", self.create_topic, methods=["POST"]),
            Route(f"{PREFIX}/topics:batch", self.create_topics, methods=["POST"]),
            Route(f"{PREFIX}/topics/{{name}}", _one_of(master.topic), methods=["GET"]),
            Route(f"{PREFIX}/topics/{{name}}", self.alter_topic, methods=["PATCH"]),
            Route(f"{PREFIX}/topics/{{name}}", self.delete_topic, methods=["DELETE"]),
            Route(f"{PREFIX}/brokers", _all_of(master.brokers)),
            Route(f"{PREFIX}/groups", self._listed(master.groups, ResourceKind.GROUP)),
            Route(f"{PREFIX}/groups/{{name}}", self.group),
            Route(f"{PREFIX}/groups/{{name}}/resets", _one_of(master.group_resets), methods=["GET"]),
            Route(f"{PREFIX}/groups/{{name}}/resets", self.reset_group, methods=["POST"]),
            *MetadataApi(master).routes(PREFIX),
            *UserApi(master).routes(PREFIX),
            *UserTokenApi(master).routes(PREFIX),
            *SessionApi(self._gate).routes(PREFIX),
            *AuditApi(master).routes(PREFIX),
            *StoryApi(master).routes(PREFIX),
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
        wanted = await read_body(request, Adoption)
        return _json(await self._master.adopt_topics(discard=wanted.discard))

    async def create_topics(self, request: Request) -> Response:
        """Return 201 when all topics are ready to use, 200 when all existed already."""
        wanted = await read_body(request, NewTopics)
        made = await self._master.create_topics(changes_of(wanted), exist_ok=wanted.exist_ok)
        return _json(made, HTTPStatus.CREATED if made.created else HTTPStatus.OK)

    async def alter_topic(self, request: Request) -> Response:
        """Change a topic; keys that the body does not name stay."""
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
        found = await self._master.delete_topic(request.path_params["name"])
        return _json(found, HTTPStatus.OK if found.removed else HTTPStatus.ACCEPTED)

    async def alter_defaults(self, request: Request) -> Response:
        """Change the cluster's defaults; keys that the body does not name stay."""
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
        """Reset a group. A dry run changes nothing and needs no token of the server."""
        wanted = await read_body(request, NewReset)
        origin = current_origin()
        user = (origin.user if origin is not None else "") or wanted.user
        moved = await self._master.reset_group(
            request.path_params["name"],
            wanted.topic,
            wanted.to,
            partitions=wanted.partitions,
            dry_run=wanted.dry_run,
            **({} if user is None else {"user": user}),
        )
        if origin is not None:
            origin.user = user or ""
            origin.before = as_text({one.partition: one.old_offset for one in moved.partitions})
            origin.after = as_text({one.partition: one.new_offset for one in moved.partitions})
        return _json(moved)

    def _listed(
        self, function: Callable[[], Awaitable[list[Any]]], kind: ResourceKind
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint for those of a kind that the caller may see."""

        async def answer(request: Request) -> Response:
            found = await function()
            return _json([one for one in found if self._gate.sees(request.state.caller, kind, one.name)])

        return answer


async def _topic_of_body(request: Request) -> Names:
    return Names(topics=((await read_body(request, NewTopic)).name,))


async def _topics_of_body(request: Request) -> Names:
    return Names(topics=[new.name for new in (await read_body(request, NewTopics)).topics])


async def _topic_and_group(request: Request) -> Names:
    wanted = await read_body(request, NewReset)
    return Names(topics=(wanted.topic,), groups=(request.path_params["name"],))


async def _group_and_topic(request: Request) -> Names:
    topic = request.query_params.get("topic")
    return Names(topics=() if topic is None else (topic,), groups=(request.path_params["name"],))


async def is_dry_run(request: Request) -> bool:
    """True if a request only shows what would change."""
    return request.url.path.endswith("/resets") and (await read_body(request, NewReset)).dry_run


NAMES_OF: Final = {
    f"POST {PREFIX}/topics": _topic_of_body,
    f"POST {PREFIX}/topics:batch": _topics_of_body,
    f"GET {PREFIX}/groups/{{name}}": _group_and_topic,
    f"POST {PREFIX}/groups/{{name}}/resets": _topic_and_group,
}
"""The functions that return the names of a call, for calls with names outside their path."""


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
