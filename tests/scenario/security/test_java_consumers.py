"""A consumer that shows a Broker a visit token alone, as the Java client does, where nobody gets in without permission.

The requests are the Java client's: without capabilities, a token of the consumer's own in none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytubemq import connect
from pytubemq.errors import Code
from pytubemq.model.ids import Address
from pytubemq.net.client.connection import RpcConnection
from pytubemq.security.credentials import Credentials
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.broker import (
    AuthorizedInfo,
    CommitOffsetRequestC2B,
    CommitOffsetResponseB2C,
    GetMessageRequestC2B,
    GetMessageResponseB2C,
    HeartBeatRequestC2B,
    HeartBeatResponseB2C,
    RegisterRequestC2B,
    RegisterResponseB2C,
)
from pytubemq.wire.rpc.methods import Method, Service
from tests.scenario.security.java_consumer import GROUP, JavaConsumer, signed
from tests.scenario.security.secured import address_of, cluster, is_known, user, users_of
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pytubemq.server.compose import Node

pytestmark = pytest.mark.anyio


class JavaMember:
    """The requests of a Java consumer to a Broker, about partition 0 of one topic."""

    failures: tuple[str, ...] = ()
    """The partitions that its last heartbeat has lost."""

    def __init__(self, connection: RpcConnection, client_id: str, visit_token: int, topic: str = "orders") -> None:
        self.connection = connection
        self.client_id = client_id
        self.topic = topic
        self.token: AuthorizedInfo | None = AuthorizedInfo(visit_authorized_token=visit_token)

    async def register(self, op_type: int = 31, read_status: int = 0) -> int:
        request = RegisterRequestC2B(
            op_type=op_type, client_id=self.client_id, group_name=GROUP, topic_name=self.topic, partition_id=0,
            read_status=read_status, curr_offset=0, auth_info=self.token,
        )  # fmt: skip
        return await self._code(request, RegisterResponseB2C, Method.CONSUMER_REGISTER_C2B)

    async def heartbeat(self) -> int:
        request = HeartBeatRequestC2B(
            client_id=self.client_id, group_name=GROUP, read_status=0, auth_info=self.token,
            partition_info=(f"1:{self.connection.peer}#{self.topic}:0",),
        )  # fmt: skip
        return await self._code(request, HeartBeatResponseB2C, Method.CONSUMER_HEARTBEAT_C2B)

    async def get(self) -> int:
        request = GetMessageRequestC2B(
            client_id=self.client_id, partition_id=0, group_name=GROUP, topic_name=self.topic
        )
        return await self._code(request, GetMessageResponseB2C, Method.GET_MESSAGE_C2B)

    async def commit(self) -> int:
        request = CommitOffsetRequestC2B(
            client_id=self.client_id, topic_name=self.topic, partition_id=0, group_name=GROUP, last_pack_consumed=True
        )
        return await self._code(request, CommitOffsetResponseB2C, Method.CONSUMER_COMMIT_C2B)

    async def _code(self, request: object, response: type[Any], method: Method) -> int:
        found = await self.connection.request(request, response, method, Service.BROKER_READ, timeout_s=10.0)
        self.failures = getattr(found, "failure_info", ())
        return int(found.err_code)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with cluster(tmp_path) as running:
        writer = await user(running, "writer", "produce topic *")
        await user(running, "reader", "consume topic orders", f"consume group {GROUP}")
        async with connect(address_of(running), credentials=writer) as tube, tube.producer("orders") as producer:
            await producer.send_many([b"x"] * 10, partition=0)
        yield running


async def dial(address: str | None) -> RpcConnection:
    assert address is not None
    return await RpcConnection.connect(Address.parse(address), capabilities=Capability(0))


async def admitted(node: Node, name: str = "reader", client_id: str = f"{GROUP}_1-Pull") -> JavaMember:
    """A member that its Master has admitted, connected to the Broker."""
    assert node.master is not None
    secret = await users_of(node).rotate(name, by=node.master.change_by("test"))
    await until(lambda: is_known(node))
    master = await dial(address_of(node))
    consumer = JavaConsumer(master, client_id)
    await consumer.register()
    answer = await consumer.heartbeat(signed(Credentials(name, secret), 7))
    await master.close()
    assert answer.err_code == Code.SUCCESS
    return JavaMember(await dial(node.endpoints.broker), client_id, answer.authorized_info.visit_authorized_token)


async def test_its_visit_token_lets_it_read_and_leave(node: Node) -> None:
    member = await admitted(node)
    assert await member.register() == Code.SUCCESS
    assert (await member.heartbeat(), await member.get(), await member.commit()) == (Code.SUCCESS,) * 3
    # As it leaves it signs, too, with what no Broker can verify.
    assert member.token is not None
    member.token = AuthorizedInfo(
        visit_authorized_token=member.token.visit_authorized_token, auth_authorized_token="reader 1 2 x%3D"
    )
    assert await member.register(op_type=32) == Code.SUCCESS
    await member.connection.close()


async def test_the_token_is_of_no_use_to_another_client_nor_for_another_topic(node: Node) -> None:
    member = await admitted(node)
    assert await member.register() == Code.SUCCESS
    stranger = JavaMember(await dial(node.endpoints.broker), f"{GROUP}_2-Pull", 1)
    for stranger.token in (None, member.token, AuthorizedInfo(visit_authorized_token=-2)):
        assert await stranger.register() == Code.CERTIFICATE_FAILURE
        assert await stranger.heartbeat() == Code.CERTIFICATE_FAILURE
    member.topic = "payments"
    assert await member.register() == Code.UNAUTHORIZED
    # Under the member's own id, but over another connection and without its token.
    stranger = JavaMember(stranger.connection, member.client_id, -2)
    assert await stranger.register() == Code.CERTIFICATE_FAILURE
    await member.connection.close()
    await stranger.connection.close()


async def test_after_a_lost_connection_it_waits_for_its_heartbeat_and_keeps_its_partition(node: Node) -> None:
    member = await admitted(node)
    assert await member.register() == Code.SUCCESS
    await member.connection.close()
    member.connection = await dial(node.endpoints.broker)
    assert (await member.get(), await member.commit()) == (Code.SERVICE_UNAVAILABLE,) * 2, "after 415 it gives it up"
    assert await member.heartbeat() == Code.SUCCESS
    assert (await member.get(), await member.commit()) == (Code.SUCCESS,) * 2
    stranger = JavaMember(member.connection, f"{GROUP}_9-Pull", -2)
    assert (await stranger.get(), await stranger.commit()) == (Code.CERTIFICATE_FAILURE,) * 2
    await member.connection.close()


async def test_a_user_that_was_disabled_reads_nothing_more(node: Node) -> None:
    member = await admitted(node)
    assert await member.register() == Code.SUCCESS
    assert await member.get() == Code.SUCCESS
    assert node.master is not None
    await users_of(node).alter("reader", enabled=False, by=node.master.change_by("test"))
    await until(lambda: is_known(node))
    assert (await member.get(), await member.commit()) == (Code.SERVICE_UNAVAILABLE,) * 2
    assert await member.heartbeat() == Code.CERTIFICATE_FAILURE
    assert (await member.get(), await member.commit()) == (Code.SERVICE_UNAVAILABLE,) * 2
    await member.connection.close()


async def test_a_permission_for_a_topic_that_was_revoked_ends_at_once_and_the_partition_with_the_heartbeat(
    node: Node,
) -> None:
    member = await admitted(node)
    assert await member.register() == Code.SUCCESS
    await users_of(node).revoke("reader", "consume", "topic", "orders")
    await until(lambda: is_known(node))
    member.topic = "payments"
    assert (await member.heartbeat(), member.failures[0].partition(":")[0]) == (Code.SUCCESS, "411")
    member.topic = "orders"
    assert (await member.get(), await member.commit()) == (Code.UNAUTHORIZED,) * 2
    assert await member.heartbeat() == Code.SUCCESS
    assert [text.partition(":")[0] for text in member.failures] == ["401"]
    assert (await member.get(), await member.commit()) == (Code.UNAUTHORIZED,) * 2
    await member.connection.close()
