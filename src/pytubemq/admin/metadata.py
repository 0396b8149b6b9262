"""The request handlers of the JSON API for the cluster's declared metadata.

The invariant: a body is checked key by key before it is compared with records, and is applied as a whole or not at all.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from pytubemq.admin.request_checks import read_flag, read_object
from pytubemq.master.declaration.merging import MergeOptions
from pytubemq.master.declaration.reading import read_declaration
from pytubemq.model.limits import MAX_METADATA_BODY_BYTES

if TYPE_CHECKING:
    from starlette.requests import Request

    from pytubemq.master.declaration.declaration import Declaration
    from pytubemq.master.service import MasterService


class MetadataApi:
    """The part of the API about the declared metadata."""

    def __init__(self, master: MasterService) -> None:
        self._master = master

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes below a prefix."""
        path = f"{prefix}/cluster/metadata"
        return [
            Route(path, self.export, methods=["GET"]),
            Route(path, self.apply, methods=["POST"]),
            Route(f"{path}:diff", self.diff, methods=["POST"]),
        ]

    async def export(self, _: Request) -> Response:
        """Return the declaration of all metadata."""
        return _json(await self._master.declared_metadata.export())

    async def diff(self, request: Request) -> Response:
        """Return what applying the declaration in the body would change."""
        return _json(await self._master.declared_metadata.diff(await _declaration(request), _options(request)))

    async def apply(self, request: Request) -> Response:
        """Change the metadata as the body declares; respond with what was changed."""
        declaration = await _declaration(request)
        return _json(
            await self._master.declared_metadata.apply(
                declaration, _options(request), expect=request.query_params.get("expect")
            )
        )


async def _declaration(request: Request) -> Declaration:
    return read_declaration(await read_object(request, most_bytes=MAX_METADATA_BODY_BYTES))


def _options(request: Request) -> MergeOptions:
    return MergeOptions(prune=read_flag(request, "prune"), only_new=read_flag(request, "only_new"))


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), HTTPStatus.OK, media_type="application/json")
