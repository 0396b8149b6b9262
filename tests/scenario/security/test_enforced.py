"""A Master and a Broker that let nobody in without permission, over real sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import pytubemq
from pytubemq import Start, connect
from pytubemq.errors import Code, NotAllowedError, RefusedError
from pytubemq.model.ids import Address
from pytubemq.net.client.connection import RpcConnection
from pytubemq.net.client.request_signer import RequestSigner
from pytubemq.security.credentials import Credentials
from pytubemq.server.compose import ROLES, Node
from pytubemq.server.sources import load_settings
from pytubemq.wire.protocol.messages.broker import (
    GetMessageRequestC2B,
    GetMessageResponseB2C,
    HeartBeatRequestC2B,
    HeartBeatResponseB2C,
    RegisterRequestC2B,
    RegisterResponseB2C,
    SendMessageRequestP2B,
    SendMessageResponseB2P,
)
from pytubemq.wire.protocol.messages.master import MasterCertificateInfo
from pytubemq.wire.rpc.methods import Method, Service
from tests.scenario.security.command_line import command
from tests.scenario.security.secured import ANY, address_of, cluster, is_known, user, users_of
from tests.support.rpc_requests import Asked, code_of
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.anyio


async def test_who_may_produce_and_consume_does(tmp_path: Path) -> None:
    async with cluster(tmp_path) as node:
        writer = await user(node, "writer", "produce topic orders")
        reader = await user(node, "reader", "consume topic ord*", "consume group readers")
        async with connect(address_of(node), credentials=writer) as tube, tube.producer("orders") as producer:
            for number in range(20):
                await producer.send(b"%d" % number)
            await producer.send_many([b"many"] * 30)
        async with connect(address_of(node), credentials=reader) as tube:
            found = 0
            async with tube.consumer("readers", "orders", start=Start.EARLIEST) as consumer:
                async for batch in consumer.batches(max_wait_s=0.2):
                    found += len(batch)
                    await batch.confirm()
                    if found == 50:
                        break
            for partition in await tube.partitions("orders"):
                async with tube.reader(partition, end=Start.LATEST) as ranges:
                    found += sum([len(batch) async for batch in ranges.batches()])
            assert found == 100
        assert node.master is not None
        group = await node.master.group("readers")
        assert group.lag_messages == 0, "the Master itself may ask its Brokers"


async def test_nobody_gets_in_without_a_user_or_with_a_wrong_secret(tmp_path: Path) -> None:
    async with cluster(tmp_path) as node:
        right = await user(node, "ann", "produce topic *")
        wrong = Credentials.of("ann", "w" * 43)
        nobody = Credentials.of("nobody", right.secret)
        for credentials, text in ((None, "requires authentication"), (wrong, "wrong"), (nobody, "wrong")):
            with pytest.raises(NotAllowedError, match=text):
                async with connect(address_of(node), credentials=credentials) as tube, tube.producer("orders"):
                    pass
        await users_of(node).alter("ann", enabled=False, by=node.master.change_by("test"))  # type: ignore[union-attr]
        with pytest.raises(NotAllowedError, match="wrong"):
            async with connect(address_of(node), credentials=right) as tube, tube.producer("orders"):
                pass


async def test_a_permission_that_is_missing_is_named_with_the_command_that_grants_it(tmp_path: Path) -> None:
    async with cluster(tmp_path) as node:
        reader = await user(node, "reader", "consume topic orders", "consume group readers")
        async with connect(address_of(node), credentials=reader) as tube:
            with pytest.raises(NotAllowedError, match="permission grant reader consume group others"):
                async with tube.consumer("others", "orders"):
                    pass
            with pytest.raises(NotAllowedError, match="permission grant reader consume topic payments"):
                async with tube.consumer("readers", "payments"):
                    pass
            async with tube.producer("orders") as producer:
                with pytest.raises(NotAllowedError, match="permission grant reader produce topic orders"):
                    await producer.send(b"not allowed")


async def test_who_may_do_nothing_learns_that_a_send_needs_produce_and_nothing_about_the_topic(tmp_path: Path) -> None:
    async with cluster(tmp_path / "data") as node:
        ann = await user(node, "ann")
        (tmp_path / "secret").write_text(ann.secret.reveal())
        (tmp_path / "secret").chmod(0o600)
        said = []
        async with connect(address_of(node), credentials=ann) as tube:
            for topic in ("orders", "nosuch"):
                with pytest.raises(NotAllowedError) as refused:
                    async with tube.producer(topic):
                        pass
                assert refused.value.code == Code.UNAUTHORIZED
                assert f"user ann lacks the permission produce on topic {topic}; " in refused.value.message
                assert f"`pytubemq permission grant ann produce topic {topic}`" in refused.value.message
                assert "describe" not in str(refused.value)
                said.append(str(refused.value).replace(topic, "TOPIC"))
        assert said[0] == said[1]
        environ = {"PYTUBEMQ_USER": "ann", "PYTUBEMQ_SECRET_FILE": str(tmp_path / "secret")}
        sent = await command("produce", "orders", "hello", "--master", address_of(node), environ=environ)
        assert (sent.code, "permission grant ann produce topic orders" in sent.err) == (4, True), sent
        assert "describe" not in sent.err


async def test_a_new_secret_ends_the_sessions_of_the_old_one(tmp_path: Path) -> None:
    async with cluster(tmp_path) as node:
        ann = await user(node, "ann", "produce topic *")
        async with connect(address_of(node), credentials=ann) as tube, tube.producer("orders") as producer:
            await producer.send(b"before")
            assert node.master is not None
            await users_of(node).rotate("ann", by=node.master.change_by("test"))
            await until(lambda: is_known(node))
            with pytest.raises(RefusedError):
                await producer.send(b"after")


async def test_a_stranger_s_raw_requests_get_415_at_the_broker(tmp_path: Path) -> None:
    async with cluster(tmp_path) as node:
        assert node.endpoints.broker is not None
        connection = await RpcConnection.connect(Address.parse(node.endpoints.broker))
        asked = [
            (
                SendMessageRequestP2B(
                    client_id="c", topic_name="orders", partition_id=0, data=b"x", flag=0, check_sum=-1, sent_addr=0
                ),
                SendMessageResponseB2P,
                Method.SEND_MESSAGE_P2B,
                Service.BROKER_WRITE,
            ),
            (
                RegisterRequestC2B(
                    op_type=31, client_id="c", group_name="g", topic_name="orders", partition_id=0, read_status=0
                ),
                RegisterResponseB2C,
                Method.CONSUMER_REGISTER_C2B,
                Service.BROKER_READ,
            ),
            (
                HeartBeatRequestC2B(client_id="c", group_name="g", read_status=0),
                HeartBeatResponseB2C,
                Method.CONSUMER_HEARTBEAT_C2B,
                Service.BROKER_READ,
            ),
            (
                GetMessageRequestC2B(client_id="c", partition_id=0, group_name="g", topic_name="orders"),
                GetMessageResponseB2C,
                Method.GET_MESSAGE_C2B,
                Service.BROKER_READ,
            ),
        ]
        for request, response, method, service in asked:
            found: Any = await connection.request(request, response, method, service, timeout_s=5.0)
            assert (method, found.err_code) == (method, Code.CERTIFICATE_FAILURE)
        await connection.close()


async def test_permissive_serves_everybody_and_logs_what_would_be_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        cluster(tmp_path, "permissive") as node,
        connect(address_of(node)) as tube,
        tube.producer("orders") as producer,
    ):
        assert (await producer.send(b"x")).partition.topic == "orders"
    assert "PRODUCER_REGISTER_P2M of producer" in caplog.text
    assert "would be refused: no signature and no token" in caplog.text


async def registered(node: Node, certificate: MasterCertificateInfo) -> int:
    """The code that a registration with this signature gets."""
    connection = await RpcConnection.connect(Address.parse(address_of(node)))
    code = await code_of(connection, Method.PRODUCER_REGISTER_P2M, Asked(client_id="p", certificate=certificate))
    await connection.close()
    return code


def check_files(directory: Path, user: Credentials) -> None:
    for path in directory.rglob("*"):
        if path.is_file():
            assert user.secret.reveal().encode() not in path.read_bytes()
    assert (directory / "master" / "root.key").stat().st_mode & 0o777 == 0o600


async def test_secrets_outlive_a_restart_and_are_in_no_file_in_plain(tmp_path: Path) -> None:
    async with cluster(tmp_path) as node:
        ann = await user(node, "ann", "produce topic *")
        signed_once = MasterCertificateInfo(auth_info=RequestSigner(ann).new_signature())
        assert await registered(node, signed_once) == Code.SUCCESS
    check_files(tmp_path, ann)
    flags: dict[str, object] = {"data": str(tmp_path), "security.authentication": "enforced", "log.level": "warning"}
    flags |= dict.fromkeys(("master.listen", "broker.listen", "http.listen", "broker.http_listen"), ANY)
    node = Node(load_settings(None, environ={}, flags=flags), ROLES["all"])
    await node.start()
    async with connect(address_of(node), credentials=ann) as tube, tube.producer("orders") as producer:
        await producer.send(b"again")
    assert await registered(node, signed_once) == Code.CERTIFICATE_FAILURE, "a signature counts once"
    await node.close()


def test_credentials_show_no_secret() -> None:
    assert "s3cret" not in repr(Credentials.of("ann", "s3cret"))
    assert pytubemq.__version__
