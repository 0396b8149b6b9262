"""Who may call which RPC method for what, every cell against a real Master and a real Broker."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

import pytest

from pytubemq.errors import Code
from pytubemq.model.ids import Address
from pytubemq.net.client.connection import RpcConnection
from pytubemq.net.client.request_signer import RequestSigner
from pytubemq.security.client_token import ClientIdentity
from pytubemq.security.permissions import Operation, ResourceKind
from pytubemq.security.rpc_permissions import RPC_PERMISSIONS, Need, Subject
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.broker import AuthorizedInfo
from pytubemq.wire.protocol.messages.extension import (
    PartitionOffsetsRequest,
    PartitionOffsetsResponse,
    TopicPartition,
)
from pytubemq.wire.protocol.messages.master import MasterCertificateInfo
from pytubemq.wire.rpc.methods import METHODS, Method, Service
from tests.scenario.security.secured import address_of, cluster, user
from tests.support.rpc_requests import REQUESTS, Asked, code_of, service_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pytubemq.security.credentials import Credentials
    from pytubemq.server.compose import Node

pytestmark = pytest.mark.anyio


class Whose(Enum):
    """Whose the client, the topic and the group of a request are."""

    OWN = "own"
    OTHERS_NAMES = "own client, another one's topic and group"
    OTHERS_CLIENT = "another one's client, own topic and group"


TOPIC, GROUP = "own_topic", "own_group"
OTHERS_TOPIC, OTHERS_GROUP = "others_topic", "others_group"
ACTORS: Final[dict[str, tuple[str, ...] | None]] = {
    "nobody": None,
    "producer": (f"produce topic {TOPIC}",),
    "consumer": (f"consume topic {TOPIC}", f"consume group {GROUP}*"),
    "broker": ("broker cluster *",),
    "operator": ("operate cluster *",),
    "admin": ("admin cluster *",),
}
"""The permissions of each; None has no user at all."""
_DESCRIBE, _PRODUCE, _CONSUME, _BROKER = Operation.DESCRIBE, Operation.PRODUCE, Operation.CONSUME, Operation.BROKER
_TOPIC, _GROUP, _CLUSTER = ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLUSTER
_SEE: Final = {(_DESCRIBE, _TOPIC), (_DESCRIBE, _GROUP)}
_ALL: Final = _SEE | {(_PRODUCE, _TOPIC), (_CONSUME, _TOPIC), (_CONSUME, _GROUP)}
CAN: Final[dict[str, dict[bool, set[tuple[Operation, ResourceKind]]]]] = {
    "producer": {True: {(_PRODUCE, _TOPIC), (_DESCRIBE, _TOPIC)}, False: set()},
    "consumer": {True: _ALL - {(_PRODUCE, _TOPIC)}, False: set()},
    "broker": {True: {(_BROKER, _CLUSTER)}, False: {(_BROKER, _CLUSTER)}},
    "operator": {True: _SEE, False: _SEE},
    "admin": {True: _ALL, False: _ALL},
}
"""What each can do with its own and with others' names, in words of its own and not by the code that decides it."""
FIRST: Final[dict[Method, Method]] = {
    Method.PRODUCER_HEARTBEAT_P2M: Method.PRODUCER_REGISTER_P2M,
    Method.PRODUCER_CLOSE_P2M: Method.PRODUCER_REGISTER_P2M,
    Method.CONSUMER_HEARTBEAT_C2M: Method.CONSUMER_REGISTER_C2M,
    Method.CONSUMER_CLOSE_C2M: Method.CONSUMER_REGISTER_C2M,
    Method.CONSUMER_HEARTBEAT_C2M_V2: Method.CONSUMER_REGISTER_C2M_V2,
    Method.GET_PART_META_C2M: Method.CONSUMER_REGISTER_C2M_V2,
    Method.BROKER_HEARTBEAT_B2M: Method.BROKER_REGISTER_B2M,
    Method.BROKER_CLOSE_B2M: Method.BROKER_REGISTER_B2M,
    Method.CONSUMER_HEARTBEAT_C2B: Method.CONSUMER_REGISTER_C2B,
    Method.GET_MESSAGE_C2B: Method.CONSUMER_REGISTER_C2B,
    Method.CONSUMER_COMMIT_C2B: Method.CONSUMER_REGISTER_C2B,
}
"""The registration that a method follows."""
NO_TOKENS: Final = frozenset({Method.GET_MESSAGE_C2B, Method.CONSUMER_COMMIT_C2B})
"""Requests without tokens: only a member that has registered over the same connection sends them."""
REFUSALS: Final = frozenset({Code.CERTIFICATE_FAILURE, Code.UNAUTHORIZED, Code.CONSUME_GROUP_FORBIDDEN})
SERVED: Final = frozenset(
    {Code.SUCCESS, Code.NOT_FOUND, Code.BAD_REQUEST, Code.HB_NO_NODE, Code.CLIENT_INCONSISTENT_CONSUMETYPE}
)
"""Codes of requests that were let in. Some have nothing to read (404) or a malformed record batch (400), or name a
group whose member their client is not."""


def at_master(method: Method) -> bool:
    return service_of(method) is Service.MASTER


def lacks(actor: str, need: Need, whose: Whose) -> bool:
    """True if an actor does not have what a row asks for; that a client is its own is judged by `expected`."""
    if need.operation is None:
        return False
    own = whose is not Whose.OTHERS_NAMES
    return (need.operation, need.kind) not in CAN[actor][own]


def expected(actor: str, method: Method, whose: Whose) -> Code | None:
    """Return the code of the refusal; None for a request that is served."""
    if ACTORS[actor] is None or whose is Whose.OTHERS_CLIENT:
        return Code.CERTIFICATE_FAILURE
    if method in NO_TOKENS:
        joins = expected(actor, FIRST[method], Whose.OWN) is None
        return None if joins and whose is Whose.OWN else Code.CERTIFICATE_FAILURE
    if any(lacks(actor, need, whose) for need in RPC_PERMISSIONS[method]):
        is_consumer = at_master(method) and method.name.startswith(("CONSUMER", "GET"))
        return Code.CONSUME_GROUP_FORBIDDEN if is_consumer else Code.UNAUTHORIZED
    return None


@dataclass
class Actor:
    """One caller with its connections; each cell has a client id of its own."""

    name: str
    node: Node
    master: RpcConnection
    broker: RpcConnection
    signer: RequestSigner
    others: Asked
    cells: int = 0

    def signed(self, asked: Asked) -> Asked:
        """The same with a new signature."""
        signature = self.signer.new_signature()
        certificate = None if signature is None else MasterCertificateInfo(auth_info=signature)
        return replace(asked, certificate=certificate)

    def with_tokens(self, asked: Asked) -> Asked:
        """The same with genuine tokens of this user for its own client."""
        if ACTORS[self.name] is None:
            return asked
        assert self.node.master is not None
        access = self.node.master._access
        visit = access.tokens.of_client(("producer", asked.client_id)).visit_authorized_token
        epoch = self.node.master.catalogue.users[self.name].secret_epoch
        own = access.guard._authenticator.issue(ClientIdentity(self.name, epoch), asked.client_id)  # type: ignore[attr-defined]
        return replace(asked, tokens=AuthorizedInfo(visit_authorized_token=visit, auth_authorized_token=own))

    async def send(self, method: Method, asked: Asked) -> int:
        return await code_of(self.master if at_master(method) else self.broker, method, self.signed(asked))

    async def cell(self, method: Method, whose: Whose) -> int:
        """Send the request of one cell, after the registration that it follows."""
        self.cells += 1
        number = list(ACTORS).index(self.name) * 100 + self.cells
        # A group for each cell: a group has members of one kind, and a partition one reader.
        own = Asked(f"{self.name}_{number}", TOPIC, f"{GROUP}_{number}", broker_id=1_000 + number)
        asked = self.with_tokens(own)
        if (first := FIRST.get(method)) is not None:
            code = await self.send(first, asked)
            assert (code in REFUSALS) == (expected(self.name, first, Whose.OWN) is not None), (first, code)
        if whose is Whose.OTHERS_NAMES:
            asked = replace(asked, topic=OTHERS_TOPIC, group=OTHERS_GROUP)
        if whose is Whose.OTHERS_CLIENT:
            asked = replace(asked, client_id=self.others.client_id, broker_id=self.others.broker_id)
        return await self.send(method, asked)


@asynccontextmanager
async def actor(node: Node, name: str, others: Asked) -> AsyncIterator[Actor]:
    granted = ACTORS[name]
    credentials: Credentials | None = None if granted is None else await user(node, name, *granted)
    assert node.endpoints.broker is not None
    plain = Capability(0)  # no held heartbeats, so each gets its response at once
    master = await RpcConnection.connect(Address.parse(address_of(node)), capabilities=plain)
    broker = await RpcConnection.connect(Address.parse(node.endpoints.broker))
    try:
        yield Actor(name, node, master, broker, RequestSigner(credentials), others)
    finally:
        await master.close()
        await broker.close()


def test_each_method_has_a_row_and_a_request() -> None:
    assert set(map(int, RPC_PERMISSIONS)) == set(METHODS), "a method without a row in RPC_PERMISSIONS"
    assert set(REQUESTS) == set(RPC_PERMISSIONS), "a method without a request in tests/support/rpc_requests.py"
    assert all(need.operation is not None or need.subject is Subject.ITS_OWN for row in RPC_PERMISSIONS.values()
               for need in row)  # fmt: skip


@pytest.mark.parametrize("name", ACTORS)
async def test_every_cell(tmp_path: Path, name: str) -> None:
    async with cluster(tmp_path) as node:
        assert node.master is not None
        for topic in (TOPIC, OTHERS_TOPIC):
            await node.master.create_topic(topic, 1)
        others = Asked(client_id="the_victim", topic=OTHERS_TOPIC, group=OTHERS_GROUP, broker_id=1)
        wrong = []
        async with victim(node, others) as ours, actor(node, name, others) as one:
            for method in RPC_PERMISSIONS:
                for whose in Whose:
                    code, wanted = await one.cell(method, whose), expected(name, method, whose)
                    if (None if code in SERVED else code) != wanted:
                        wrong.append((method.name, whose.value, code, wanted))
            assert not wrong
            assert one.cells == len(RPC_PERMISSIONS) * len(Whose)
            for method in (Method.PRODUCER_HEARTBEAT_P2M, Method.CONSUMER_HEARTBEAT_C2M):
                assert await ours.send(method, others) == Code.SUCCESS, (
                    f"{method.name}: the other one's client was closed"
                )
            assert node.broker is not None
            assert node.master._brokers.runs[1].online, "the real Broker's registration was taken over"


@asynccontextmanager
async def victim(node: Node, others: Asked) -> AsyncIterator[Actor]:
    """A user whose producer and consumer are registered while others try to use them."""
    credentials = await user(node, "victim", f"produce topic {OTHERS_TOPIC}", f"consume topic {OTHERS_TOPIC}",
                             f"consume group {OTHERS_GROUP}")  # fmt: skip
    assert node.endpoints.broker is not None
    master = await RpcConnection.connect(Address.parse(address_of(node)), capabilities=Capability(0))
    broker = await RpcConnection.connect(Address.parse(node.endpoints.broker))
    try:
        found = Actor("victim", node, master, broker, RequestSigner(credentials), others)
        for method in (Method.PRODUCER_REGISTER_P2M, Method.CONSUMER_REGISTER_C2M):
            assert await found.send(method, others) == Code.SUCCESS
        yield found
    finally:
        await master.close()
        await broker.close()


async def test_who_asks_for_all_groups_gets_those_that_it_may_see(tmp_path: Path) -> None:
    async with cluster(tmp_path) as node:
        assert node.master is not None
        for topic in (TOPIC, OTHERS_TOPIC):
            await node.master.create_topic(topic, 2)
        everybody = Asked(topic=TOPIC, group=OTHERS_GROUP)
        async with actor(node, "admin", everybody) as admin, actor(node, "consumer", everybody) as consumer:
            for partition, group in enumerate((OTHERS_GROUP, GROUP)):
                member = Asked(client_id=f"member_{partition}", topic=TOPIC, group=group, partition=partition)
                assert await admin.send(Method.CONSUMER_REGISTER_C2B, admin.with_tokens(member)) == Code.SUCCESS
            seen = {}
            for one in (admin, consumer):
                asked = one.with_tokens(Asked(client_id=f"{one.name}_1"))
                request = PartitionOffsetsRequest(
                    client_id=asked.client_id,
                    partitions=tuple(TopicPartition(topic_name=TOPIC, partition_id=number) for number in range(2)),
                    all_groups=True,
                    auth_info=asked.tokens,
                )
                found = await one.broker.request(
                    request, PartitionOffsetsResponse, Method.PARTITION_OFFSETS, Service.BROKER_READ, timeout_s=20.0
                )
                assert found.err_code == Code.SUCCESS
                seen[one.name] = {position.group_name for position in found.groups}
            assert seen == {"admin": {GROUP, OTHERS_GROUP}, "consumer": {GROUP}}
