"""The callers of a cluster's HTTP where authentication is enforced: an administrator, a weak user, and nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.scenario.security.secured import user

if TYPE_CHECKING:
    from pytubemq.server.compose import Node

SERVERS_TOKEN: Final = "0tQ3vXkz7Lr9WmYb2HsNd5FgJc8PaE4u"
CALLERS: Final = ("admin", "weak", "nobody")
TOPICS: Final = {"orders", "payments"}
"""Which only the administrator may change."""


def own_token(caller: str) -> str:
    """Return the token that the server gets: the administrator's, who so remains one whatever becomes of users."""
    return SERVERS_TOKEN if caller == "admin" else ""


async def token_of(node: Node, caller: str) -> str:
    """Return the token of a caller; blank for nobody."""
    if caller != "weak":
        return own_token(caller)
    assert node.master is not None
    await user(node, "weak", "consume topic orders", "consume group billing")
    made = await node.master.registry.user_tokens.create("weak", by=node.master.change_by("test"))
    return made[1].reveal()
