"""A consumer that signs only when it is asked to, as the Java client does, where nobody gets in without permission."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.errors import Code
from pytubemq.model.ids import Address
from pytubemq.net.client.connection import RpcConnection
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.master import (
    GetPartMetaRequestC2M,
    GetPartMetaResponseM2C,
    HeartRequestC2MV2,
    HeartRequestP2M,
    HeartResponseM2CV2,
    HeartResponseM2P,
    MasterCertificateInfo,
    RegisterRequestC2MV2,
    RegisterResponseM2CV2,
)
from pytubemq.wire.rpc.methods import Method, Service
from tests.scenario.security.java_consumer import GROUP, UNSIGNED, JavaConsumer, signed
from tests.scenario.security.secured import address_of, cluster, user, users_of

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.anyio


async def test_it_gets_nothing_until_it_has_signed(tmp_path: Path) -> None:
    async with cluster(tmp_path) as node:
        reader = await user(node, "reader", "consume topic orders", f"consume group {GROUP}")
        connection = await RpcConnection.connect(Address.parse(address_of(node)), capabilities=Capability(0))
        consumer = JavaConsumer(connection)
        answer = await consumer.register()
        assert (answer.err_code, answer.authorized_info) == (Code.SUCCESS, None), "no token yet"
        assert node.master is not None
        assert node.master.group_room.groups == {}, "and no member"
        answer = await consumer.heartbeat()
        assert (answer.require_auth, answer.event, answer.authorized_info) == (True, None, None)
        answer = await consumer.heartbeat(signed(reader, 1))
        assert answer.err_code == Code.SUCCESS
        assert list(node.master.group_room.groups[GROUP].members) == [consumer.client_id]
        token = answer.authorized_info.auth_authorized_token
        answer = await consumer.heartbeat(MasterCertificateInfo(authorized_token=token))
        assert answer.err_code == Code.SUCCESS, "from then on it shows the token that the Master gave it"
        await connection.close()


async def test_without_a_permission_its_signature_is_of_no_use(tmp_path: Path) -> None:
    async with cluster(tmp_path) as node:
        other = await user(node, "other", "consume topic payments", "consume group *")
        connection = await RpcConnection.connect(Address.parse(address_of(node)), capabilities=Capability(0))
        consumer = JavaConsumer(connection)
        assert (await consumer.register()).success
        answer = await consumer.heartbeat(signed(other, 1))
        assert (answer.err_code, "consume on topic orders" in answer.err_msg) == (Code.CONSUME_GROUP_FORBIDDEN, True)
        assert (await consumer.register(None)).err_code == Code.CERTIFICATE_FAILURE, "it has authentication off"
        await connection.close()


async def test_after_a_refusal_it_is_asked_to_sign_again_so_that_a_permission_granted_later_lets_it_in(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as node:
        reader = await user(node, "reader", f"consume group {GROUP}")
        connection = await RpcConnection.connect(Address.parse(address_of(node)), capabilities=Capability(0))
        consumer = JavaConsumer(connection)
        assert (await consumer.register()).success
        assert (await consumer.heartbeat(signed(reader, 1))).err_code == Code.CONSUME_GROUP_FORBIDDEN
        assert node.master is not None
        await users_of(node).grant("reader", "consume", "topic", "orders", by=node.master.change_by("test"))
        assert (await consumer.heartbeat()).err_code == Code.HB_NO_NODE, "415 would have it send the same for ever"
        assert (await consumer.register()).success
        assert (await consumer.heartbeat()).require_auth
        assert (await consumer.heartbeat(signed(reader, 2))).authorized_info is not None
        await connection.close()


async def test_a_client_balance_consumer_may_sign_its_request_for_metadata_instead_of_its_heartbeat(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as node:
        reader = await user(node, "reader", "consume topic orders", f"consume group {GROUP}")
        connection = await RpcConnection.connect(Address.parse(address_of(node)), capabilities=Capability(0))
        stranger = await RpcConnection.connect(Address.parse(address_of(node)), capabilities=Capability(0))

        async def ask(kind: type[Any], response: type[Any], method: Method, *, by: Any = None, **fields: Any) -> Any:
            request = kind(client_id="c1", group_name=GROUP, **fields)
            return await (by or connection).request(request, response, method, Service.MASTER, timeout_s=10.0)

        async def heartbeat(by: Any = None) -> Any:
            return await ask(
                HeartRequestC2MV2, HeartResponseM2CV2, Method.CONSUMER_HEARTBEAT_C2M_V2, by=by, auth_info=UNSIGNED
            )

        answer = await ask(
            RegisterRequestC2MV2, RegisterResponseM2CV2, Method.CONSUMER_REGISTER_C2M_V2,
            host_name="h", source_count=1, node_id=0, topic_list=("orders",), auth_info=UNSIGNED,
        )  # fmt: skip
        assert answer.ops_task_info.require_auth
        answer = await ask(
            GetPartMetaRequestC2M, GetPartMetaResponseM2C, Method.GET_PART_META_C2M,
            broker_config_id=-2, topic_meta_info_id=-2, auth_info=signed(reader, 1),
        )  # fmt: skip
        assert (answer.err_code, len(answer.topic_meta_info_list)) == (Code.SUCCESS, 1)
        assert (await heartbeat(stranger)).authorized_info is None, "over another connection it has not signed"
        answer = await heartbeat()
        assert (answer.err_code, answer.authorized_info is not None) == (Code.SUCCESS, True)
        assert (await heartbeat()).authorized_info is None, "it has its token now"
        await connection.close()
        await stranger.close()


async def test_a_token_that_is_worthless_has_it_sign_again(tmp_path: Path) -> None:
    async with cluster(tmp_path) as node:
        reader = await user(node, "reader", "consume topic orders", f"consume group {GROUP}")
        connection = await RpcConnection.connect(Address.parse(address_of(node)), capabilities=Capability(0))
        consumer = JavaConsumer(connection)
        assert (await consumer.register(signed(reader, 1))).success
        worthless = MasterCertificateInfo(authorized_token="1.2.3.4.5.6")
        assert (await consumer.heartbeat(worthless)).err_code == Code.HB_NO_NODE
        assert (await consumer.register(worthless)).authorized_info is None
        assert (await consumer.heartbeat(worthless)).require_auth
        assert (await consumer.heartbeat(signed(reader, 2))).authorized_info is not None
        await connection.close()


async def test_a_java_producer_with_a_worthless_token_registers_again(tmp_path: Path) -> None:
    async with cluster(tmp_path) as node:
        connection = await RpcConnection.connect(Address.parse(address_of(node)), capabilities=Capability(0))
        for certificate, code in (
            (MasterCertificateInfo(authorized_token="1.2.3.4.5.6"), Code.HB_NO_NODE),
            (None, Code.CERTIFICATE_FAILURE),
        ):
            request = HeartRequestP2M(client_id="p1", broker_check_sum=-1, host_name="h", auth_info=certificate)
            answer: Any = await connection.request(
                request, HeartResponseM2P, Method.PRODUCER_HEARTBEAT_P2M, Service.MASTER, timeout_s=10.0
            )
            assert answer.err_code == code
        await connection.close()


async def test_nobody_closes_or_takes_over_another_user_s_client(tmp_path: Path) -> None:
    async with cluster(tmp_path) as node:
        reader = await user(node, "reader", "consume topic orders", f"consume group {GROUP}")
        rival = await user(node, "rival", "consume topic orders", f"consume group {GROUP}")
        connection = await RpcConnection.connect(Address.parse(address_of(node)), capabilities=Capability(0))
        consumer = JavaConsumer(connection)
        assert (await consumer.register(signed(reader, 1))).success
        for certificate in (None, UNSIGNED, signed(rival, 1)):
            assert (await consumer.close(certificate)).err_code == Code.CERTIFICATE_FAILURE
        assert (await consumer.register(signed(rival, 2))).err_code == Code.CERTIFICATE_FAILURE
        assert (await consumer.close(signed(reader, 2))).success
        assert (await consumer.register(signed(rival, 3))).success, "its id is free again"
        await connection.close()
