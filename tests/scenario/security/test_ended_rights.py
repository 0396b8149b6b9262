"""Permissions that end while a client is at work: it loses what it has open, too."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytubemq import Start, connect
from pytubemq.errors import Code
from pytubemq.model.ids import Address
from pytubemq.net.client.connection import RpcConnection
from pytubemq.net.client.request_signer import RequestSigner
from pytubemq.wire.protocol.messages.broker import AuthorizedInfo
from pytubemq.wire.protocol.messages.master import (
    MasterCertificateInfo,
    RegisterRequestC2M,
    RegisterResponseM2C,
)
from pytubemq.wire.rpc.methods import METHODS, Method, Service
from tests.scenario.security.secured import address_of, cluster, is_known, user, users_of
from tests.support.rpc_requests import REQUESTS, Asked, code_of, service_of
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from pytubemq.server.compose import Node

pytestmark = pytest.mark.anyio
GROUP = "readers"
FOUND = (Code.SUCCESS, Code.NOT_FOUND)


async def revoke_topic(node: Node) -> None:
    await users_of(node).revoke("ann", "consume", "topic", "orders")


async def revoke_group(node: Node) -> None:
    await users_of(node).revoke("ann", "consume", "group", GROUP)


async def disable(node: Node) -> None:
    assert node.master is not None
    await users_of(node).alter("ann", enabled=False, by=node.master.change_by("test"))


async def rotate(node: Node) -> None:
    assert node.master is not None
    await users_of(node).rotate("ann", by=node.master.change_by("test"))


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (revoke_topic, Code.UNAUTHORIZED),
        (revoke_group, Code.CERTIFICATE_FAILURE),
        (disable, Code.CERTIFICATE_FAILURE),
        (rotate, Code.CERTIFICATE_FAILURE),
    ],
)
async def test_a_member_that_sends_no_heartbeat_reads_nothing_more(
    tmp_path: Path, end: Callable[[Node], Awaitable[None]], code: Code
) -> None:
    async with cluster(tmp_path) as node:
        ann = await user(node, "ann", "consume topic orders", "consume topic payments", f"consume group {GROUP}")
        signature = RequestSigner(ann).new_signature()
        master = await RpcConnection.connect(Address.parse(address_of(node)))
        found = await master.request(
            RegisterRequestC2M(client_id="c1", group_name=GROUP, host_name="h", topic_list=("orders", "payments"),
                               auth_info=MasterCertificateInfo(auth_info=signature)),
            RegisterResponseM2C, Method.CONSUMER_REGISTER_C2M, Service.MASTER, timeout_s=20.0,
        )  # fmt: skip
        assert found.authorized_info is not None
        tokens = AuthorizedInfo(
            visit_authorized_token=found.authorized_info.visit_authorized_token,
            auth_authorized_token=found.authorized_info.auth_authorized_token,
        )
        assert node.endpoints.broker is not None
        broker = await RpcConnection.connect(Address.parse(node.endpoints.broker))
        asked = Asked(client_id="c1", topic="orders", group=GROUP, tokens=tokens)
        assert await code_of(broker, Method.CONSUMER_REGISTER_C2B, asked) == Code.SUCCESS
        assert await code_of(broker, Method.GET_MESSAGE_C2B, asked) in FOUND
        await end(node)
        await until(lambda: is_known(node))
        for method in (Method.GET_MESSAGE_C2B, Method.CONSUMER_COMMIT_C2B):
            assert await code_of(broker, method, asked) == code, method
        await broker.close()
        await master.close()


@pytest.mark.parametrize(("end", "code"), [(revoke_topic, Code.UNAUTHORIZED), (disable, Code.CERTIFICATE_FAILURE)])
async def test_what_waits_for_messages_gets_none_that_come_after_its_rights(
    tmp_path: Path, end: Callable[[Node], Awaitable[None]], code: Code
) -> None:
    async with cluster(tmp_path) as node:
        ann = await user(node, "ann", "consume topic orders", f"consume group {GROUP}")
        writer = await user(node, "writer", "produce topic orders")
        master = await RpcConnection.connect(Address.parse(address_of(node)))
        found = await master.request(
            RegisterRequestC2M(client_id="c1", group_name=GROUP, host_name="h", topic_list=("orders",),
                               auth_info=MasterCertificateInfo(auth_info=RequestSigner(ann).new_signature())),
            RegisterResponseM2C, Method.CONSUMER_REGISTER_C2M, Service.MASTER, timeout_s=20.0,
        )  # fmt: skip
        assert found.authorized_info is not None
        tokens = AuthorizedInfo(
            visit_authorized_token=found.authorized_info.visit_authorized_token,
            auth_authorized_token=found.authorized_info.auth_authorized_token,
        )
        assert node.endpoints.broker is not None
        broker = await RpcConnection.connect(Address.parse(node.endpoints.broker))
        asked = Asked(client_id="c1", topic="orders", group=GROUP, tokens=tokens)
        assert await code_of(broker, Method.CONSUMER_REGISTER_C2B, asked) == Code.SUCCESS
        held = [
            asyncio.create_task(
                broker.request(
                    replace(REQUESTS[method](asked), max_wait_ms=60_000), METHODS[method].response, method,
                    service_of(method), timeout_s=90.0,
                )
            )
            for method in (Method.GET_MESSAGE_C2B, Method.READ_RANGE_C2B)
        ]  # fmt: skip
        assert node.broker is not None
        state = node.broker._state
        assert state is not None
        await until(lambda: len(state.waiters) == 2)
        await end(node)
        await until(lambda: is_known(node))
        async with connect(address_of(node), credentials=writer) as tube, tube.producer("orders") as producer:
            await producer.send(b"not for ann", partition=0)
        assert [(await one).err_code for one in held] == [code] * 2
        await broker.close()
        await master.close()


async def test_a_change_of_other_permissions_disturbs_nobody(tmp_path: Path) -> None:
    async with cluster(tmp_path) as node:
        ann = await user(node, "ann", "consume topic orders", f"consume group {GROUP}")
        async with (
            connect(address_of(node), credentials=ann) as tube,
            tube.consumer(GROUP, "orders", start=Start.EARLIEST) as consumer,
        ):
            writer = await user(node, "writer", "produce topic orders")
            async with connect(address_of(node), credentials=writer) as other, other.producer("orders") as producer:
                await producer.send(b"x")
            async for batch in consumer.batches(max_wait_s=0.2):
                if len(batch):
                    break
