"""Users, their secrets and their permissions, as an administrator changes them.

The invariants: a secret is returned once, by the call that made it, and stored sealed; whatever takes access away
(another secret, a disabled or removed user) invalidates the client and visit tokens that were issued before; another
secret or password ends bearer tokens, too, unless they shall stay; no change locks a registered Broker, or everyone,
out unless it is forced.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pytubemq.errors import AlreadyExistsError, BadRequestError, Code, ConfigError, FormatError, NotFoundError
from pytubemq.master.registry.lockout import brokers_locked_out, loses, may, no_admin_left
from pytubemq.model.limits import MAX_PERMISSIONS, MAX_USERS
from pytubemq.model.names import is_plain, unplain
from pytubemq.model.records import PermissionRecord, UserRecord
from pytubemq.model.suggest import suggest
from pytubemq.security.passwords import SALT_BYTES, hash_password
from pytubemq.security.permissions import Operation, Permission, ResourceKind, is_allowed, parse_permission
from pytubemq.security.secret import Secret
from pytubemq.security.token_strength import MIN_BITS, estimate_bits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.master.registry.audit import Audit
    from pytubemq.model.records import UserTokenRecord
    from pytubemq.security.sealing import Sealer

MAX_USER_NAME_CHARS: Final = 64
SECRET_BYTES: Final = 32
MIN_PASSWORD_CHARS: Final = 12
_EPOCH_BYTES: Final = 6
"""Random bytes of a new user's first epoch, which leave it room to grow."""


@dataclass(frozen=True, slots=True)
class User:
    """A user as administrators see it."""

    name: str
    enabled: bool
    has_secret: bool
    has_password: bool
    permissions: tuple[Permission, ...]
    changed_by: str
    changed_ms: int


class UserRegistry:
    """Changes of users and permissions. Every change is durable when its call returns."""

    def __init__(
        self,
        catalogue: Catalogue,
        sealer: Sealer | None,
        random_bytes: Callable[[int], bytes],
        new_secret: Callable[[], str],
        brokers_of: Callable[[str], Collection[int]] = lambda _: (),
    ) -> None:
        """`new_secret` returns a random text that nobody can guess, `brokers_of` a user's registered Brokers."""
        self._catalogue = catalogue
        self._sealer = sealer
        self._random_bytes = random_bytes
        self._new_secret = new_secret
        self._brokers_of = brokers_of

    async def create(self, name: str, *, by: Audit, secret: Secret | None = None) -> Secret:
        """Create a user without permissions; return its secret, which is never returned again.

        Raises:
            BadRequestError: the name or the secret cannot be used, or there are too many users.
            AlreadyExistsError: there is such a user.
            ConfigError: this Master has no key for secrets.
        """
        _check_name(name)
        given = self._checked(secret)
        async with self._catalogue.lock:
            if name in self._catalogue.users:
                raise AlreadyExistsError(
                    f"user {name} exists already",
                    hint=f"`pytubemq user rotate {name}` gives it another secret",
                    code=Code.BAD_REQUEST,
                )
            if len(self._catalogue.users) >= MAX_USERS:
                raise BadRequestError(
                    f"there are {MAX_USERS} users, no more are allowed", hint="remove some", code=Code.BAD_REQUEST
                )
            # Random, so that tokens of a removed user are worthless to another one of the same name.
            epoch = int.from_bytes(self._random_bytes(_EPOCH_BYTES), "big") + 1
            record = UserRecord(name, sealed_secret=self._seal(name, given), secret_epoch=epoch, stamp=by.made())
            await self._catalogue.apply([record])
        return given

    async def rotate(self, name: str, *, by: Audit, secret: Secret | None = None, keep_tokens: bool = False) -> Secret:
        """Give a user another secret; its clients must use it from their next request on, and its sessions end.

        Its bearer tokens are revoked unless `keep_tokens`. Raises as `create`.
        """
        given = self._checked(secret)
        async with self._catalogue.lock:
            known = self._find(name)
            changes = {"sealed_secret": self._seal(name, given), "secret_epoch": known.secret_epoch + 1}
            await self._replace(known, by, () if keep_tokens else self._tokens_of(name), **changes)
        return given

    async def alter(
        self,
        name: str,
        *,
        by: Audit,
        password: Secret | None = None,
        enabled: bool | None = None,
        keep_tokens: bool = False,
        force: bool = False,
    ) -> None:
        """Give a user a password for HTTP, enable or disable it; all that is asked for, or nothing.

        Another password ends its sessions and revokes its bearer tokens. The tokens stay with `keep_tokens`, and where
        the user had no password, with which someone could have made them. A disabled user keeps its permissions.

        Raises:
            BadRequestError: the password is too short.
            NotFoundError: there is no such user.
            RefusedError: this would lock out a Broker, or everyone; not with `force`.
        """
        stored = None if password is None else await self._hashed(password)
        async with self._catalogue.lock:
            known = self._find(name)
            changes: dict[str, object] = {}
            revoked: list[UserTokenRecord] = []
            if stored is not None:
                changes["password_hash"] = stored
                revoked = [] if keep_tokens or not known.password_hash else self._tokens_of(name)
            if enabled is not None and known.user_enabled != enabled:
                if not enabled and not force:
                    self._check_lockout(known, ())
                changes |= {"user_enabled": enabled, "secret_epoch": known.secret_epoch + 1}
            if changes:
                await self._replace(known, by, revoked, **changes)

    async def remove(self, name: str, *, force: bool = False) -> None:
        """Remove a user with its permissions and tokens. Raises as `alter`."""
        async with self._catalogue.lock:
            known = self._find(name)
            if not force:
                self._check_lockout(known, ())
            granted = self._catalogue.permissions.get(name, {})
            await self._catalogue.apply(deletes=[known, *granted.values(), *self._tokens_of(name)])

    async def grant(self, name: str, operation: str, kind: str, pattern: str, *, by: Audit) -> Permission:
        """Grant a user a permission; granting it again is no error.

        Raises:
            BadRequestError: there is no such permission, or there are too many.
            NotFoundError: there is no such user.
        """
        permission = _permission(operation, kind, pattern)
        async with self._catalogue.lock:
            self._find(name)
            granted = self._catalogue.permissions
            if _words(permission) in granted.get(name, ()):
                return permission
            if sum(map(len, granted.values())) >= MAX_PERMISSIONS:
                raise BadRequestError(
                    f"there are {MAX_PERMISSIONS} permissions, no more are allowed",
                    hint="grant one with a pattern, such as orders*, in place of many",
                    code=Code.BAD_REQUEST,
                )
            await self._catalogue.apply([PermissionRecord(name, *_words(permission), stamp=by.made())])
        return permission

    async def revoke(self, name: str, operation: str, kind: str, pattern: str, *, force: bool = False) -> Permission:
        """Revoke a permission, named as it was granted.

        Raises:
            BadRequestError: there is no such permission.
            NotFoundError: there is no such user, or it was not granted this.
            RefusedError: this would lock out a Broker, or everyone; not with `force`.
        """
        permission = _permission(operation, kind, pattern)
        async with self._catalogue.lock:
            user = self._find(name)
            known = self._catalogue.permissions.get(name, {}).get(_words(permission))
            if known is None:
                raise NotFoundError(
                    f"user {name} was not granted {permission}",
                    hint=f"`pytubemq permission list {name}` shows what it was granted",
                    code=Code.NOT_FOUND,
                )
            if not force:
                self._check_lockout(user, [one for one in self._view(user).permissions if one != permission])
            await self._catalogue.apply(deletes=[known])
        return permission

    def find(self, name: str) -> User:
        """Return a user. Raises NotFoundError."""
        return self._view(self._find(name))

    def all(self) -> list[User]:
        """Return all users, by name."""
        return [self._view(record) for _, record in sorted(self._catalogue.users.items())]

    def test(self, name: str, operation: str, kind: str, resource: str) -> Permission | None:
        """Return the permission that allows an operation on a named resource; None if none does.

        Raises:
            BadRequestError: there is no such operation.
            NotFoundError: there is no such user.
        """
        wanted = _permission(operation, kind, resource)
        user = self._view(self._find(name))
        if not user.enabled:
            return None
        asked = Operation(operation), ResourceKind(kind), wanted.pattern
        return next((one for one in user.permissions if is_allowed([one], *asked)), None)

    # --- inside -------------------------------------------------------------------------------------------------

    def _find(self, name: str) -> UserRecord:
        known = self._catalogue.users.get(name)
        if known is None:
            close = suggest(name, self._catalogue.users)
            raise NotFoundError(
                f"there is no user {name}",
                hint=f"did you mean {close}?" if close else "`pytubemq user list` names the users",
                code=Code.NOT_FOUND,
            )
        return known

    async def _hashed(self, password: Secret) -> str:
        if len(password.reveal()) < MIN_PASSWORD_CHARS:
            raise BadRequestError(
                f"the password has fewer than {MIN_PASSWORD_CHARS} characters",
                hint="take a longer one, such as four random words",
                code=Code.BAD_REQUEST,
            )
        # Off the loop, since it takes as long as a check of a password.
        return await asyncio.to_thread(hash_password, password, salt=self._random_bytes(SALT_BYTES))

    async def _replace(
        self, known: UserRecord, by: Audit, revoked: Iterable[UserTokenRecord] = (), **changes: object
    ) -> None:
        record = replace(known, stamp=by.changed(known.stamp), **changes)  # type: ignore[arg-type]
        await self._catalogue.apply([record], revoked)

    def _tokens_of(self, name: str) -> list[UserTokenRecord]:
        return [token for token in self._catalogue.user_tokens.values() if token.user == name]

    def _check_lockout(self, known: UserRecord, left: Collection[Permission]) -> None:
        """Refuse to leave a user these permissions alone, where that locks someone out. Raises RefusedError."""
        before = self._view(known).permissions if known.user_enabled else ()
        if loses(Operation.BROKER, before, left) and (brokers := self._brokers_of(known.user)):
            raise brokers_locked_out(known.user, brokers)
        if loses(Operation.ADMIN, before, left) and not any(
            other.enabled and other.name != known.user and may(Operation.ADMIN, other.permissions)
            for other in self.all()
        ):
            raise no_admin_left(known.user)

    def _seal(self, name: str, secret: Secret) -> str:
        if self._sealer is None:
            raise ConfigError(
                "this Master has no key to store secrets with",
                hint="start it with security.authentication, as `pytubemq dev --secure` does, or set security.key_file",
            )
        return self._sealer.seal(name, secret)

    def _checked(self, secret: Secret | None) -> Secret:
        if secret is None:
            return Secret(self._new_secret())
        text = secret.reveal()
        if not text.isprintable() or (bits := estimate_bits(text)) < MIN_BITS:
            raise BadRequestError(
                f"the secret can be guessed: its characters have {bits:.0f} random bits at most, {MIN_BITS} are needed"
                if text.isprintable()
                else "the secret has characters that are not printable",
                hint="leave it out: a random one is made",
                code=Code.BAD_REQUEST,
            )
        return secret

    def _view(self, record: UserRecord) -> User:
        granted = self._catalogue.permissions.get(record.user, ())
        return User(
            record.user,
            record.user_enabled,
            bool(record.sealed_secret),
            bool(record.password_hash),
            tuple(sorted(parse_permission(*words) for words in granted)),
            record.stamp.modify_user,
            record.stamp.modify_ms,
        )


def _check_name(name: str) -> None:
    if not name or len(name) > MAX_USER_NAME_CHARS or not is_plain(name) or any(char in name for char in " @#:,/"):
        raise BadRequestError(
            f"{name[:80]!r} is no name of a user" if is_plain(name) else unplain(name, "the user"),
            hint=f"use 1 to {MAX_USER_NAME_CHARS} characters, without blanks and without @ # : , /",
            code=Code.BAD_REQUEST,
        )


def _permission(operation: str, kind: str, pattern: str) -> Permission:
    try:
        return parse_permission(operation, kind, pattern)
    except FormatError as error:
        raise BadRequestError(error.message, hint=error.hint, code=Code.BAD_REQUEST) from error


def _words(permission: Permission) -> tuple[str, str, str]:
    return permission.operation.value, permission.kind.value, permission.pattern
