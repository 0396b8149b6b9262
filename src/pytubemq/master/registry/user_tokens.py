"""Creation and revocation of bearer tokens.

The invariant: a token is returned once, by the call that made it; only its hash is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.errors import BadRequestError, Code, NotFoundError
from pytubemq.master.access.http.bearer import ID_BYTES, TOKEN_BYTES, bearer_token, hash_token
from pytubemq.model.limits import MAX_USER_TOKENS
from pytubemq.model.records import UserTokenRecord
from pytubemq.model.suggest import suggest
from pytubemq.security.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.master.registry.audit import Audit

MAX_TOKEN_DAYS: Final = 3_650
_DAY_MS: Final = 86_400_000


class UserTokenRegistry:
    """Changes of bearer tokens. Every change is durable when its call returns."""

    def __init__(
        self, catalogue: Catalogue, random_hex: Callable[[int], str], random_text: Callable[[int], str]
    ) -> None:
        """Both functions return that many random bytes as a text."""
        self._catalogue = catalogue
        self._random_hex = random_hex
        self._random_text = random_text

    async def create(self, user: str, *, by: Audit, days: int | None = None) -> tuple[UserTokenRecord, Secret]:
        """Make a bearer token of a user, which expires after some days, or never.

        Raises:
            BadRequestError: the number of days is out of its range, or the user has too many tokens.
            NotFoundError: there is no such user.
        """
        if days is not None and not 1 <= days <= MAX_TOKEN_DAYS:
            raise BadRequestError(
                f"a token cannot expire after {days} days",
                hint=f"give 1 to {MAX_TOKEN_DAYS}, or leave it out for a token that does not expire",
                code=Code.BAD_REQUEST,
            )
        async with self._catalogue.lock:
            self._check_user(user)
            now_ms = by.ms
            expired = [one for one in self._of(user) if 0 < one.expires_ms <= now_ms]
            if len(self._of(user)) - len(expired) >= MAX_USER_TOKENS:
                raise BadRequestError(
                    f"user {user} has {MAX_USER_TOKENS} bearer tokens, no more are allowed",
                    hint=f"revoke one:  pytubemq user token revoke {user} ID",
                    code=Code.BAD_REQUEST,
                )
            token_id = self._random_hex(ID_BYTES)
            text = bearer_token(token_id, self._random_text(TOKEN_BYTES))
            record = UserTokenRecord(
                user, token_id, hash_token(text), 0 if days is None else now_ms + days * _DAY_MS, by.made()
            )
            await self._catalogue.apply([record], expired)
        return record, Secret(text)

    async def revoke(self, user: str, token_id: str) -> UserTokenRecord:
        """Revoke a bearer token. Raises NotFoundError: there is no such user, or it has no such token."""
        async with self._catalogue.lock:
            self._check_user(user)
            record = self._catalogue.user_tokens.get(token_id)
            if record is None or record.user != user:
                raise NotFoundError(
                    f"user {user} has no bearer token {token_id[:80]}",
                    hint=f"`pytubemq user token list {user}` shows the ids",
                    code=Code.NOT_FOUND,
                )
            await self._catalogue.apply(deletes=[record])
        return record

    def all_of(self, user: str) -> list[UserTokenRecord]:
        """Return the bearer tokens of a user, oldest first. Raises NotFoundError."""
        self._check_user(user)
        return sorted(self._of(user), key=lambda record: (record.stamp.create_ms, record.token_id))

    def _of(self, user: str) -> list[UserTokenRecord]:
        return [record for record in self._catalogue.user_tokens.values() if record.user == user]

    def _check_user(self, user: str) -> None:
        if user not in self._catalogue.users:
            close = suggest(user, self._catalogue.users)
            raise NotFoundError(
                f"there is no user {user[:80]}",
                hint=f"did you mean {close}?" if close else "`pytubemq user list` names the users",
                code=Code.NOT_FOUND,
            )
