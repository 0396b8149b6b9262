"""A Master with users of every kind, and what each of them may call, written down apart from the tables."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from pytubemq.admin.access import needs
from pytubemq.admin.webapi.authorization import Access
from pytubemq.master.service import MasterService, MasterSettings
from pytubemq.model.ids import Address
from pytubemq.security.authentication_mode import AuthenticationMode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SERVER_TOKEN: Final = "the-servers-own-token-of-32-chars"
GRANTED: Final = {
    "producer": ("produce topic orders",),
    "consumer": ("consume topic orders", "consume group billing"),
    "owner": ("admin topic orders", "admin group billing"),
    "operator": ("operate cluster *",),
    "admin": ("admin cluster *",),
}
CALLERS: Final = ("nobody", *GRANTED, "server")
"""`server` has the server's own token."""
OWN: Final = {"topic": "orders", "group": "billing"}
OTHERS: Final = {"topic": "payments", "group": "audits"}

_ALL: Final = frozenset(CALLERS)
_KNOWN: Final = _ALL - {"nobody"}
_ADMINS: Final = frozenset({"admin", "server"})
_OPERATORS: Final = _ADMINS | {"operator"}
_OWNERS: Final = _OPERATORS | {"owner"}

ALLOWED: Final[dict[tuple[needs.HttpNeed, ...], tuple[frozenset[str], frozenset[str]]]] = {
    (needs.ANYONE,): (_ALL, _ALL),
    (needs.SIGNED_IN,): (_KNOWN, _KNOWN),
    (needs.LISTED,): (_KNOWN, _KNOWN),
    (needs.ITS_USER,): (_KNOWN, _ADMINS),
    (needs.SERVERS_TOKEN,): (frozenset({"server"}), frozenset({"server"})),
    (needs.SEE_CLUSTER,): (_OPERATORS, _OPERATORS),
    (needs.OPERATE,): (_OPERATORS, _OPERATORS),
    (needs.ADMINISTER,): (_ADMINS, _ADMINS),
    (needs.SEE_TOPIC,): (_KNOWN, _OPERATORS),
    (needs.CHANGE_TOPIC,): (_OWNERS, _OPERATORS),
    (needs.SEE_GROUP,): (_OWNERS | {"consumer"}, _OPERATORS),
    (needs.CHANGE_GROUP,): (_OWNERS, _OPERATORS),
    (needs.SEE_TOPIC, needs.SEE_GROUP): (_OWNERS | {"consumer"}, _OPERATORS),
    (needs.READ_TOPIC, needs.JOIN_GROUP): (_ADMINS | {"owner", "consumer"}, _ADMINS),
}
"""Who may make a call with these needs: about what is its own, and about what is another's."""


@asynccontextmanager
async def master(mode: AuthenticationMode = AuthenticationMode.ENFORCED) -> AsyncIterator[MasterService]:
    made = MasterService(MasterSettings(listen=Address("127.0.0.1", 0), authentication=mode, root_key=b"k" * 32))
    await made.prepare()
    try:
        yield made
    finally:
        await made.close()


async def with_users(made: MasterService) -> dict[str, str]:
    """Create the users; return a bearer token of each caller, blank for nobody."""
    by = made.change_by("test")
    tokens = {"nobody": "", "server": SERVER_TOKEN}
    for name, granted in GRANTED.items():
        await made.registry.users.create(name, by=by)
        for words in granted:
            await made.registry.users.grant(name, *words.split(), by=by)
        tokens[name] = (await made.registry.user_tokens.create(name, by=by))[1].reveal()
    return tokens


def own_access() -> Access:
    return Access(SERVER_TOKEN)


def headers_of(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}
