"""Users who are let in and try to be others, or to learn what is not theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.errors import Code
from pytubemq.model.ids import Address
from pytubemq.net.client.connection import RpcConnection
from pytubemq.net.client.request_signer import RequestSigner
from pytubemq.wire.protocol.messages import extension, master
from pytubemq.wire.protocol.messages.broker import AuthorizedInfo, RegisterRequestC2B, RegisterResponseB2C
from pytubemq.wire.protocol.messages.master import MasterCertificateInfo
from pytubemq.wire.rpc.methods import METHODS, Method, Service
from tests.scenario.security.secured import address_of, cluster, user, users_of
from tests.support.rpc_requests import REQUESTS, Asked, code_of, service_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pytubemq.security.credentials import Credentials
    from pytubemq.server.compose import Node

pytestmark = pytest.mark.anyio
GROUP = "readers"
READ = ("consume topic orders", f"consume group {GROUP}")
CONSUMER, PRODUCER = Method.CONSUMER_REGISTER_C2M, Method.PRODUCER_REGISTER_P2M


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    async with cluster(tmp_path) as running:
        yield running


def signed(credentials: Credentials) -> MasterCertificateInfo:
    return MasterCertificateInfo(auth_info=RequestSigner(credentials).new_signature())


class Caller:
    """One user's connections to the Master and the Broker."""

    def __init__(self, credentials: Credentials, at_master: RpcConnection, at_broker: RpcConnection) -> None:
        self.credentials = credentials
        self.master = at_master
        self.broker = at_broker

    @classmethod
    async def connect(cls, node: Node, credentials: Credentials) -> Caller:
        assert node.endpoints.broker is not None
        at_master = await RpcConnection.connect(Address.parse(address_of(node)))
        return cls(credentials, at_master, await RpcConnection.connect(Address.parse(node.endpoints.broker)))

    async def register(self, client_id: str, method: Method = CONSUMER) -> tuple[int, AuthorizedInfo | None]:
        """Register at the Master; return the code, and the tokens for Brokers."""
        request = REQUESTS[method](Asked(client_id=client_id, group=GROUP, certificate=signed(self.credentials)))
        found = await self.ask(self.master, request, method)
        tokens = found.authorized_info
        if tokens is None:
            return int(found.err_code), None
        shown = AuthorizedInfo(
            visit_authorized_token=tokens.visit_authorized_token, auth_authorized_token=tokens.auth_authorized_token
        )
        return int(found.err_code), shown

    async def at_broker(self, method: Method, client_id: str, tokens: AuthorizedInfo | None) -> int:
        return await code_of(self.broker, method, Asked(client_id=client_id, group=GROUP, tokens=tokens))

    async def ask(self, connection: RpcConnection, request: Any, method: Method) -> Any:
        return await connection.request(request, METHODS[method].response, method, service_of(method), timeout_s=20.0)

    async def close(self) -> None:
        await self.master.close()
        await self.broker.close()


@pytest.mark.parametrize(("client_id", "method"), [("c1", PRODUCER), ("x~c1", CONSUMER), ("x~c1", PRODUCER)])
async def test_nobody_gets_a_token_that_is_good_for_anothers_client(node: Node, client_id: str, method: Method) -> None:
    ann = await Caller.connect(node, await user(node, "ann", *READ))
    bob = await Caller.connect(node, await user(node, "bob", *READ))
    assert (await ann.register("c1"))[0] == Code.SUCCESS
    assert await bob.register(client_id, method) == (Code.CERTIFICATE_FAILURE, None)
    await ann.close()
    await bob.close()


async def test_a_user_with_a_token_for_anothers_client_id_takes_nothing_over(node: Node) -> None:
    bob = await Caller.connect(node, await user(node, "bob", *READ))
    ann = await Caller.connect(node, await user(node, "ann", *READ))
    code, stolen = await bob.register("x~c1")  # before there is such a client
    assert code == Code.SUCCESS
    await code_of(
        bob.master, Method.CONSUMER_CLOSE_C2M, Asked("x~c1", group=GROUP, certificate=signed(bob.credentials))
    )
    assert stolen is not None
    code, tokens = await ann.register("c1")
    assert code == Code.SUCCESS
    assert await ann.at_broker(Method.CONSUMER_REGISTER_C2B, "c1", tokens) == Code.SUCCESS

    assert await bob.at_broker(Method.CONSUMER_REGISTER_C2B, "c1", stolen) == Code.PARTITION_OCCUPIED
    leave = RegisterRequestC2B(
        op_type=32, client_id="c1", group_name=GROUP, topic_name="orders", partition_id=0, read_status=0,
        auth_info=stolen,
    )  # fmt: skip
    left = await bob.broker.request(
        leave, RegisterResponseB2C, Method.CONSUMER_REGISTER_C2B, Service.BROKER_READ, timeout_s=20.0
    )
    assert left.err_code == Code.DUPLICATE_PARTITION
    beat = REQUESTS[Method.CONSUMER_HEARTBEAT_C2B](Asked("c1", group=GROUP, tokens=stolen))
    beat = type(beat)(**{name: getattr(beat, name) for name in type(beat).__slots__} | {
        "partition_info": (f"1:{bob.broker.peer}#orders:0",)})  # fmt: skip
    lost = await bob.ask(bob.broker, beat, Method.CONSUMER_HEARTBEAT_C2B)
    assert [text.partition(":")[0] for text in lost.failure_info] == ["412"]
    assert await bob.at_broker(Method.GET_MESSAGE_C2B, "c1", None) == Code.DUPLICATE_PARTITION
    assert await bob.at_broker(Method.CONSUMER_COMMIT_C2B, "c1", None) == Code.UNAUTHORIZED
    assert await ann.at_broker(Method.GET_MESSAGE_C2B, "c1", None) == Code.NOT_FOUND
    await ann.close()
    await bob.close()


async def test_a_client_that_leaves_one_group_is_still_its_users_in_the_other(node: Node) -> None:
    ann = await Caller.connect(node, await user(node, "ann", "consume topic orders", "consume group *"))
    bob = await Caller.connect(node, await user(node, "bob"))
    for group in ("one", "two"):
        asked = Asked("c1", group=group, certificate=signed(ann.credentials))
        assert await code_of(ann.master, CONSUMER, asked) == Code.SUCCESS
    close = Method.CONSUMER_CLOSE_C2M
    left = Asked("c1", group="one", certificate=signed(ann.credentials))
    assert await code_of(ann.master, close, left) == Code.SUCCESS
    others = Asked("c1", group="two", certificate=signed(bob.credentials))
    assert await code_of(bob.master, close, others) == Code.CERTIFICATE_FAILURE
    assert node.master is not None
    assert "c1" in node.master.group_room.groups["two"].members
    left = Asked("c1", group="two", certificate=signed(ann.credentials))
    assert await code_of(ann.master, close, left) == Code.SUCCESS
    assert len(node.master._access.sessions) == 1, "the Broker's alone"
    await ann.close()
    await bob.close()


async def test_tokens_of_a_removed_user_are_worthless_to_a_new_one_of_its_name(node: Node) -> None:
    ann = await Caller.connect(node, await user(node, "ann", *READ))
    _, tokens = await ann.register("c1")
    assert await ann.at_broker(Method.CONSUMER_HEARTBEAT_C2B, "c1", tokens) == Code.SUCCESS
    await users_of(node).remove("ann")
    await user(node, "ann", *READ)
    assert await ann.at_broker(Method.CONSUMER_HEARTBEAT_C2B, "c1", tokens) == Code.CERTIFICATE_FAILURE
    assert tokens is not None
    shown = MasterCertificateInfo(authorized_token=tokens.auth_authorized_token)
    found = await code_of(ann.master, Method.CONSUMER_CLOSE_C2M, Asked("c1", group=GROUP, certificate=shown))
    assert found == Code.CERTIFICATE_FAILURE
    await ann.close()


@pytest.mark.parametrize(("granted", "seen"), [((), ()), (("consume topic orders",), ("orders",))])
async def test_the_list_of_topics_has_those_that_its_reader_may_see(
    node: Node, granted: tuple[str, ...], seen: tuple[str, ...]
) -> None:
    bob = await Caller.connect(node, await user(node, "bob", *granted))
    register = master.RegisterRequestP2M(
        client_id="p", broker_check_sum=-1, host_name="h", auth_info=signed(bob.credentials)
    )
    assert (await bob.ask(bob.master, register, PRODUCER)).err_code == Code.SUCCESS
    beat = master.HeartRequestP2M(
        client_id="p", broker_check_sum=-1, host_name="h", want_topic_names=True, auth_info=signed(bob.credentials)
    )
    found = await bob.ask(bob.master, beat, Method.PRODUCER_HEARTBEAT_P2M)
    assert (found.err_code, found.topic_names) == (Code.SUCCESS, seen)
    await bob.close()


async def test_offsets_tell_nothing_of_topics_that_are_not_the_readers(node: Node) -> None:
    bob = await Caller.connect(node, await user(node, "bob", *READ))
    _, tokens = await bob.register("c1")

    async def offsets(*named: tuple[str, int]) -> Any:
        request = extension.PartitionOffsetsRequest(
            client_id="c1", auth_info=tokens, group_names=(GROUP,),
            partitions=tuple(extension.TopicPartition(topic_name=topic, partition_id=pid) for topic, pid in named),
        )  # fmt: skip
        return await bob.ask(bob.broker, request, Method.PARTITION_OFFSETS)

    everything = await offsets()
    assert everything.err_code == Code.SUCCESS
    assert {ends.topic_name for ends in everything.partitions} == {"orders"}
    answers = [await offsets(named) for named in (("payments", 0), ("payments", 99), ("nothing", 0))]
    assert [answer.err_code for answer in answers] == [Code.UNAUTHORIZED] * 3
    await bob.close()


async def test_a_move_is_recorded_as_its_callers(node: Node) -> None:
    bob = await Caller.connect(node, await user(node, "bob", *READ))
    _, tokens = await bob.register("c1")
    move = extension.ResetOffsetsRequest(
        client_id="c1", group_name=GROUP, user="ann", auth_info=tokens,
        resets=(extension.OffsetReset(topic_name="orders", partition_id=0, to="earliest"),),
    )  # fmt: skip
    assert (await bob.ask(bob.broker, move, Method.RESET_OFFSETS)).err_code == Code.SUCCESS
    past = REQUESTS[Method.RESET_HISTORY](Asked("c1", group=GROUP, tokens=tokens))
    found = await bob.ask(bob.broker, past, Method.RESET_HISTORY)
    assert [one.user for one in found.records] == ["bob"]
    await bob.close()


async def test_zeros_before_its_number_make_a_broker_no_other_one(node: Node) -> None:
    bob = await user(node, "bob", "broker cluster *")
    connection = await RpcConnection.connect(Address.parse(address_of(node)))
    request = REQUESTS[Method.BROKER_REGISTER_B2M](Asked(broker_id=1, certificate=signed(bob)))
    for text in ("1", "01", " 1", "0000000001"):
        values = {name: getattr(request, name) for name in type(request).__slots__}
        values |= {"client_id": f"{text}:127.0.0.1:20001", "auth_info": signed(bob)}
        found = await connection.request(
            type(request)(**values), METHODS[Method.BROKER_REGISTER_B2M].response, Method.BROKER_REGISTER_B2M,
            Service.MASTER, timeout_s=20.0,
        )  # fmt: skip
        assert (text, found.err_code) == (text, Code.CERTIFICATE_FAILURE), found.err_msg
        assert "in use by another user" in found.err_msg
    await connection.close()


async def test_a_broker_remembers_no_client_id_or_topic_of_megabytes(node: Node) -> None:
    bob = await Caller.connect(node, await user(node, "bob", "consume topic *", f"consume group {GROUP}"))
    _, tokens = await bob.register("c1")
    long = "x" * 200_000
    for request in (Asked(f"{long}~c1", group=GROUP, tokens=tokens), Asked("c1", long, GROUP, tokens=tokens)):
        assert await code_of(bob.broker, Method.READ_RANGE_C2B, request) != Code.SUCCESS
    assert await bob.at_broker(Method.CONSUMER_REGISTER_C2B, "c1", tokens) == Code.SUCCESS
    assert await code_of(bob.broker, Method.GET_MESSAGE_C2B, Asked("c1", long, GROUP)) != Code.SUCCESS
    assert node.broker is not None
    assert node.broker._server is not None
    remembered = [
        (client_id, wish.name, *admission.topics)
        for connection in node.broker._server.connections
        for (client_id, wish), admission in connection.context.get("admitted", {}).items()
    ]
    assert remembered
    assert all(len(text) <= 1024 for texts in remembered for text in texts)
    await bob.close()
