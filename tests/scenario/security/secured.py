"""A Master and a Broker with authentication on, and users for them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from pytubemq.security.credentials import Credentials
from pytubemq.server.compose import ROLES, Node
from pytubemq.server.sources import load_settings
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pytubemq.master.registry.users import UserRegistry

ANY = "127.0.0.1:0"


@asynccontextmanager
async def cluster(directory: Path, mode: str = "enforced", *, token: str = "", **tls: object) -> AsyncIterator[Node]:
    """A cluster with the topics `orders` and `payments`; `tls` has settings of the section `tls`."""
    flags: dict[str, object] = {"data": str(directory), "log.level": "warning", "security.authentication": mode}
    flags["http.token"] = token
    flags |= dict.fromkeys(("master.listen", "broker.listen", "http.listen", "broker.http_listen"), ANY)
    flags |= {f"tls.{name}": value for name, value in tls.items()}
    flags |= dict.fromkeys(("master.tls_port", "broker.tls_port"), 0)
    node = Node(load_settings(None, environ={}, flags=flags), ROLES["all"])
    await node.start()
    try:
        assert node.master is not None
        await node.master.create_topic("orders", 2)
        await node.master.create_topic("payments", 2)
        yield node
    finally:
        await node.close()


def users_of(node: Node) -> UserRegistry:
    assert node.master is not None
    return node.master.registry.users


async def user(node: Node, name: str, *granted: str) -> Credentials:
    """A new user with these permissions, each as `operation kind pattern`."""
    assert node.master is not None
    by = node.master.change_by("test")
    secret = await users_of(node).create(name, by=by)
    for words in granted:
        await users_of(node).grant(name, *words.split(), by=by)
    await until(lambda: is_known(node))
    return Credentials(name, secret)


def is_known(node: Node) -> bool:
    """True if the Broker has the users and permissions as they are now."""
    assert node.master is not None
    assert node.broker is not None
    assert node.broker._state is not None
    return node.broker._state.access.rules.version == node.master._access.checks.version


def address_of(node: Node) -> str:
    assert node.endpoints.master is not None
    return node.endpoints.master
