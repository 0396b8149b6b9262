"""The request handlers of the JSON API that manage users and their permissions.

The invariant: a secret is in the one response to the request that made it, which no cache keeps.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from pytubemq.admin.bodies import ChangedUser, NewPermission, NewSecret, NewUser, OldPermission
from pytubemq.admin.request_checks import read_body, read_flag
from pytubemq.errors import UnavailableError
from pytubemq.master.views import PermissionTest, PermissionView, SecretView, UserView, iso
from pytubemq.security.secret import Secret

if TYPE_CHECKING:
    from starlette.requests import Request

    from pytubemq.master.registry.users import User
    from pytubemq.master.service import MasterService
    from pytubemq.security.permissions import Permission

logger = logging.getLogger(__name__)

_NO_STORE = {"Cache-Control": "no-store"}


class UserApi:
    """The part of the API about users."""

    def __init__(self, master: MasterService) -> None:
        self._master = master

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes below a prefix."""
        one = f"{prefix}/users/{{name}}"
        return [
            Route(f"{prefix}/users", self.list_users, methods=["GET"]),
            Route(f"{prefix}/users", self.create, methods=["POST"]),
            Route(one, self.show, methods=["GET"]),
            Route(one, self.alter, methods=["PATCH"]),
            Route(one, self.remove, methods=["DELETE"]),
            Route(f"{one}/secret", self.rotate, methods=["POST"]),
            Route(f"{one}/permissions", self.grant, methods=["POST"]),
            Route(f"{one}/permissions:revoke", self.revoke, methods=["POST"]),
            Route(f"{one}/permissions:test", self.test, methods=["POST"]),
        ]

    async def list_users(self, _: Request) -> Response:
        """Return all users."""
        return _json([view_of(user) for user in self._master.registry.users.all()])

    async def create(self, request: Request) -> Response:
        """Create a user; respond with 201 and its secret."""
        new = await read_body(request, NewUser)
        secret = await self._master.registry.users.create(
            new.name, by=self._master.change_by(new.by), secret=_secret(new.secret)
        )
        return _json(SecretView(name=new.name, secret=secret.reveal()), HTTPStatus.CREATED)

    async def show(self, request: Request) -> Response:
        """Return one user."""
        return _json(view_of(self._master.registry.users.find(request.path_params["name"])))

    async def alter(self, request: Request) -> Response:
        """Enable or disable a user, give it a password, or both at once."""
        name, users = request.path_params["name"], self._master.registry.users
        change = await read_body(request, ChangedUser)
        await users.alter(
            name,
            by=self._master.change_by(change.by),
            password=_secret(change.password),
            enabled=change.enabled,
            keep_tokens=change.keep_tokens,
            force=change.force,
        )
        if change.enabled is not None:
            await self._master.registry.waits.until_access_known()
        return _json(view_of(users.find(name)))

    async def remove(self, request: Request) -> Response:
        """Remove a user with its permissions."""
        found = view_of(self._master.registry.users.find(request.path_params["name"]))
        await self._master.registry.users.remove(found.name, force=read_flag(request, "force"))
        await self._master.registry.waits.until_access_known()
        return _json(found)

    async def rotate(self, request: Request) -> Response:
        """Give a user another secret; respond with it when the Brokers online refuse tokens of the one before."""
        name = request.path_params["name"]
        new = await read_body(request, NewSecret)
        secret = await self._master.registry.users.rotate(
            name,
            by=self._master.change_by(new.by),
            secret=_secret(new.secret),
            keep_tokens=new.keep_tokens,
        )
        try:
            await self._master.registry.waits.until_access_known()
        except UnavailableError as error:  # no error to the caller, who would never see the secret
            logger.warning("user %s has another secret: %s; %s", name, error.message, error.hint)
        return _json(SecretView(name=name, secret=secret.reveal()))

    async def grant(self, request: Request) -> Response:
        """Grant a permission; respond with the user when the Brokers online have it."""
        name, users = request.path_params["name"], self._master.registry.users
        new = await read_body(request, NewPermission)
        await users.grant(name, new.operation, new.kind, new.pattern, by=self._master.change_by(new.by))
        await self._master.registry.waits.until_access_known()
        return _json(view_of(users.find(name)))

    async def revoke(self, request: Request) -> Response:
        """Revoke a permission; respond with the user when the Brokers online have it."""
        name, users = request.path_params["name"], self._master.registry.users
        old = await read_body(request, OldPermission)
        await users.revoke(name, old.operation, old.kind, old.pattern, force=old.force)
        await self._master.registry.waits.until_access_known()
        return _json(view_of(users.find(name)))

    async def test(self, request: Request) -> Response:
        """Return whether a user may do something, and by which permission."""
        name = request.path_params["name"]
        asked = await read_body(request, NewPermission)
        found = self._master.registry.users.test(name, asked.operation, asked.kind, asked.pattern)
        return _json(
            PermissionTest(
                name=name,
                operation=asked.operation,
                kind=asked.kind,
                resource=asked.pattern,
                allowed=found is not None,
                by=None if found is None else str(found),
            )
        )


def view_of(user: User) -> UserView:
    """Return the view of a user."""
    return UserView(
        name=user.name,
        enabled=user.enabled,
        has_secret=user.has_secret,
        has_password=user.has_password,
        permissions=[_permission(one) for one in user.permissions],
        changed_by=user.changed_by,
        changed_at=iso(user.changed_ms),
    )


def _permission(permission: Permission) -> PermissionView:
    return PermissionView(operation=permission.operation.value, kind=permission.kind.value, pattern=permission.pattern)


def _secret(text: str | None) -> Secret | None:
    return None if text is None else Secret(text)


def _json(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(msgspec.json.encode(value), status, _NO_STORE, media_type="application/json")
