"""The routes of the JSON API v1.

The invariant: a route only translates; what is done is a function of the Master's, so whatever the API can do can be
done without it.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route

from pytubemq.admin.bodies import ChangedDefaults, ChangedTopic, NewReset, NewTopic, policy_of
from pytubemq.admin.guard import HostGuard, read_body
from pytubemq.admin.openapi import describe
from pytubemq.admin.problems import ApiError, on_api_error, on_crash, on_http_error, on_tube_error
from pytubemq.admin.webapi.params import CallError
from pytubemq.errors import TubeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from pytubemq.admin.operations import MasterOperations
    from pytubemq.admin.webapi.access import Access

PREFIX = "/api/v1"


def create_app(
    master: MasterOperations,
    *,
    hosts: Iterable[str] = (),
    pages: Iterable[BaseRoute] = (),
    access: Access | None = None,
) -> Starlette:
    """The API of `master`; `hosts` are the names under which it may be called beside loopback addresses.

    `pages` are served beside it. A change needs what `access` says.
    """

    async def health(_: Request) -> Response:
        found = await master.health()
        return _json(found, HTTPStatus.OK if found.status == "healthy" else HTTPStatus.SERVICE_UNAVAILABLE)

    async def create_topic(request: Request) -> Response:
        _check_token(request, access)
        new = await read_body(request, NewTopic)
        made = await master.create_topic(
            new.name,
            new.partitions,
            max_message_bytes=new.max_message_bytes,
            delete_policy=policy_of(new),
            durability=new.durability,
        )
        return _json(made, HTTPStatus.CREATED)

    async def alter_topic(request: Request) -> Response:
        _check_token(request, access)
        change = await read_body(request, ChangedTopic)
        return _json(
            await master.alter_topic(
                request.path_params["name"],
                partitions=change.partitions,
                max_message_bytes=change.max_message_bytes,
                delete_policy=policy_of(change),
                durability=change.durability,
            )
        )

    async def alter_defaults(request: Request) -> Response:
        _check_token(request, access)
        change = await read_body(request, ChangedDefaults)
        return _json(
            await master.alter_defaults(
                max_message_bytes=change.max_message_bytes,
                delete_policy=policy_of(change),
                durability=change.durability,
            )
        )

    async def reset_group(request: Request) -> Response:
        wanted = await read_body(request, NewReset)
        if not wanted.dry_run:
            _check_token(request, access)
        return _json(
            await master.reset_group(
                request.path_params["name"],
                wanted.topic,
                wanted.to,
                partitions=wanted.partitions,
                dry_run=wanted.dry_run,
                **({} if wanted.user is None else {"user": wanted.user}),
            )
        )

    async def delete_topic(request: Request) -> Response:
        _check_token(request, access)
        found = await master.delete_topic(request.path_params["name"])
        return _json(found, HTTPStatus.OK if found.removed else HTTPStatus.ACCEPTED)

    async def openapi(_: Request) -> Response:
        return _json(describe(master.version))

    def all_of(function: Callable[[], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(_: Request) -> Response:
            return _json(await function())

        return answer

    def one_of(function: Callable[[str], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            return _json(await function(request.path_params["name"]))

        return answer

    routes = [
        Route(f"{PREFIX}/health", health),
        Route(f"{PREFIX}/cluster", all_of(master.cluster)),
        Route(f"{PREFIX}/cluster/defaults", all_of(master.defaults), methods=["GET"]),
        Route(f"{PREFIX}/cluster/defaults", alter_defaults, methods=["PATCH"]),
        Route(f"{PREFIX}/topics", all_of(master.topics), methods=["GET"]),
        Route(f"{PREFIX}/topics", create_topic, methods=["POST"]),
        Route(f"{PREFIX}/topics/{{name}}", one_of(master.topic), methods=["GET"]),
        Route(f"{PREFIX}/topics/{{name}}", alter_topic, methods=["PATCH"]),
        Route(f"{PREFIX}/topics/{{name}}", delete_topic, methods=["DELETE"]),
        Route(f"{PREFIX}/brokers", all_of(master.brokers)),
        Route(f"{PREFIX}/groups", all_of(master.groups)),
        Route(f"{PREFIX}/groups/{{name}}", one_of(master.group)),
        Route(f"{PREFIX}/groups/{{name}}/resets", one_of(master.group_resets), methods=["GET"]),
        Route(f"{PREFIX}/groups/{{name}}/resets", reset_group, methods=["POST"]),
        Route(f"{PREFIX}/openapi.json", openapi),
        *pages,
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(HostGuard, hosts=tuple(hosts))],
        exception_handlers={
            ApiError: on_api_error,
            TubeError: on_tube_error,
            HTTPException: on_http_error,
            Exception: on_crash,
        },
    )


def _check_token(request: Request, access: Access | None) -> None:
    if access is None:
        return
    try:
        access.check(modify=True, headers=request.headers, query={}, form={})
    except CallError as error:
        raise ApiError(
            HTTPStatus.UNAUTHORIZED,
            error.text,
            "a change needs the token of this server, unless it has none and only this machine can reach it",
            "send Authorization: Bearer TOKEN; the command line takes it from the variable PYTUBEMQ_TOKEN",
        ) from None


def _json(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
