"""The rows of clients at servers that require authentication.

The Java system verifies no client's secret, and its own producers and consumers cannot stay at its own Master: their
heartbeats are not signed. So official clients are shown at our Master alone, and wrong secrets likewise.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytubemq
from pytubemq import Credentials, Start
from pytubemq.errors import Code, NotAllowedError
from pytubemq.model.ids import Address
from pytubemq.net.client.connection import RpcConnection
from pytubemq.wire.protocol.messages.broker import (
    RegisterRequestC2B,
    RegisterResponseB2C,
    SendMessageRequestP2B,
    SendMessageResponseB2P,
)
from pytubemq.wire.rpc.methods import Method, Service
from tests.support.waiting import until

from .authenticated_system import MEMBER, OTHER_TOPIC, TOPIC, AuthenticatedSystem
from .bench import CellError, connected
from .client_balance import expect
from .driver import DriverError

if TYPE_CHECKING:
    from .bench import Bench
    from .system import Column

COUNT = 500
READ_TIMEOUT_S = 180.0
WRONG = Credentials.of(MEMBER.user, "not-the-secret-of-a-member-in-these-tests")


async def our_clients_sign(bench: Bench) -> dict[str, Any]:
    """Authentication on, pytubemq clients."""
    system = await _started(bench, "ours")
    async with connected(system.master, credentials=MEMBER) as tube:
        async with tube.producer(TOPIC) as producer:
            receipts = await producer.send_many([b"%d" % number for number in range(COUNT)])
            expect("receipts", len(receipts), COUNT)
        async with asyncio.timeout(READ_TIMEOUT_S):
            counts = await asyncio.gather(_pull(tube), _push(tube), _balance(tube))
    await _our_refusals(system, bench.column)
    await _raw_requests_are_refused(system, bench.column)
    return {"messages": sum(counts)}


async def _pull(tube: pytubemq.Tube) -> int:
    bodies: set[bytes] = set()
    async with tube.consumer("pull", TOPIC, start=Start.EARLIEST) as consumer:
        async for batch in consumer.batches():
            bodies |= {message.body for message in batch}
            await batch.confirm()
            if len(bodies) == COUNT:
                break
    return len(bodies)


async def _push(tube: pytubemq.Tube) -> int:
    bodies: set[bytes] = set()
    done = asyncio.Event()

    async def handle(batch: pytubemq.Batch) -> None:
        bodies.update(message.body for message in batch)
        if len(bodies) == COUNT:
            done.set()

    async with tube.push_consumer("push", TOPIC, handler=handle, start=Start.EARLIEST):
        await done.wait()
    return len(bodies)


async def _balance(tube: pytubemq.Tube) -> int:
    bodies: set[bytes] = set()
    async with tube.balance_consumer("balance", TOPIC, node_id=0, source_count=1, start=Start.EARLIEST) as consumer:
        async for batch in consumer.batches():
            bodies |= {message.body for message in batch}
            await batch.confirm()
            if len(bodies) == COUNT:
                break
    return len(bodies)


async def _our_refusals(system: AuthenticatedSystem, column: Column) -> None:
    """Who does not sign is refused by either Master; a wrong secret and a missing permission, by ours."""
    tries = [(None, TOPIC)] if column.java_master else [(None, TOPIC), (WRONG, TOPIC), (MEMBER, OTHER_TOPIC)]
    for credentials, topic in tries:
        async with connected(system.master, credentials=credentials) as tube:
            for client in (
                tube.producer(topic),
                tube.consumer("refused", topic),
                tube.balance_consumer("refused_balance", topic, node_id=0, source_count=1),
            ):
                try:
                    async with client:
                        pass
                except NotAllowedError:
                    continue
                raise CellError(f"{type(client).__name__} of {topic} with {credentials} was let in")


async def _raw_requests_are_refused(system: AuthenticatedSystem, column: Column) -> None:
    """A send and a registration without any token, past the Master."""
    broker = await RpcConnection.connect(Address.parse(system.broker))
    sent = await broker.request(
        SendMessageRequestP2B(
            client_id="stranger", topic_name=TOPIC, partition_id=0, data=b"x", flag=0, check_sum=-1, sent_addr=0
        ),
        SendMessageResponseB2P, Method.SEND_MESSAGE_P2B, Service.BROKER_WRITE, timeout_s=10.0,
    )  # fmt: skip
    registered = await broker.request(
        RegisterRequestC2B(
            op_type=31, client_id="stranger", group_name="stranger", topic_name=TOPIC, partition_id=0, read_status=0
        ),
        RegisterResponseB2C, Method.CONSUMER_REGISTER_C2B, Service.BROKER_READ, timeout_s=10.0,
    )  # fmt: skip
    await broker.close()
    expect("a send without a token", sent.err_code, Code.CERTIFICATE_FAILURE)
    # Our Master has a Java Broker look at consumers' visit tokens alone, which it begins to do a while after its start.
    if column.java_master or not column.java_broker:
        expect("a registration without a token", registered.err_code, Code.CERTIFICATE_FAILURE)


async def java_clients_sign(bench: Bench) -> dict[str, Any]:
    """Authentication on, Java clients."""
    system = await _started(bench, "java")
    clients = JavaClients(bench, system)
    await clients.produce("producer", MEMBER, TOPIC)
    async with asyncio.timeout(READ_TIMEOUT_S):
        await asyncio.gather(
            clients.read("pull", push=False),
            clients.read("push", push=True),
            clients.balance(),
            clients.refused_producers(),
            clients.refused_consumers(),
        )
    return {"messages": 3 * COUNT}


class JavaClients:
    """Official clients with a user and its secret."""

    def __init__(self, bench: Bench, system: AuthenticatedSystem) -> None:
        self._bench = bench
        self._driver = bench.driver
        self._system = system
        self._prefix = f"{bench.column.prefix}_authenticated"

    async def produce(self, name: str, user: Credentials, topic: str) -> None:
        """Send `COUNT` messages."""
        client = await self._made(name, "producer", user)
        await self._driver.call(client, "publish", topics=[topic])
        receipts = await self._driver.call(
            client, "send", topic=topic, set="set", first=0, count=COUNT, sync=True, tries=3
        )
        expect("receipts", len(receipts), COUNT)

    async def read(self, name: str, *, push: bool) -> None:
        """Read all messages."""
        seen = self._seen(name)
        await self._made(
            name, "consumer", MEMBER, push=push, group=f"{self._prefix}_{name}", topics={TOPIC: []}, position=-1
        )
        await until(lambda: len(seen) == COUNT, timeout_s=READ_TIMEOUT_S)

    async def balance(self) -> None:
        """Connect to each partition and read all messages."""
        seen = self._seen("balance")
        client = await self._made("balance", "balance", MEMBER, group=f"{self._prefix}_balance", position=-1)
        started = await self._driver.call(client, "start", topics={TOPIC: []}, source_count=1, node_id=0)
        expect("start", (started["done"], started["code"]), (True, Code.SUCCESS))
        while True:
            found = await self._driver.call(client, "getPartitionMetaInfo")
            if found["partitions"]:
                break
            await asyncio.sleep(0.5)  # a member is asked, it tells nothing by itself
        for partition in found["partitions"]:
            taken = await self._driver.call(client, "connect2Partition", partition=partition, offset=-1)
            expect("connect2Partition", (taken["done"], taken["code"]), (True, Code.SUCCESS))
        await self._driver.call(client, "read")
        await until(lambda: len(seen) == COUNT, timeout_s=READ_TIMEOUT_S)

    async def refused_producers(self) -> None:
        """A wrong secret, and a topic without a permission."""
        for name, user, topic in (("wrong", WRONG, TOPIC), ("other", MEMBER, OTHER_TOPIC)):
            try:
                await self.produce(name, user, topic)
            except DriverError:
                continue
            raise CellError(f"the producer {name} was let in")
        await self._told("PRODUCER_REGISTER_P2M", "a wrong signature")
        await self._told("PRODUCER_HEARTBEAT_P2M", f"lacks the permission describe on topic {OTHER_TOPIC}")

    async def refused_consumers(self) -> None:
        """A wrong secret, and a topic without a permission: neither gets a message."""
        seen = []
        for name, user, topic in (("wrong_reader", WRONG, TOPIC), ("other_reader", MEMBER, OTHER_TOPIC)):
            seen.append(self._seen(name))
            await self._made(
                name, "consumer", user, push=False, group=f"{self._prefix}_{name}", topics={topic: []}, position=-1
            )
        await self._told("CONSUMER_REGISTER_C2M of", "a wrong signature")
        await self._told("CONSUMER_REGISTER_C2M of", f"lacks the permission consume on topic {OTHER_TOPIC}")
        await self._refused_balance()
        expect("what refused consumers read", seen, [set(), set()])

    async def _refused_balance(self) -> None:
        group = f"{self._prefix}_wrong_balance"
        client = await self._made("wrong_balance", "balance", WRONG, group=group, position=-1)
        await self._driver.call(client, "start", topics={TOPIC: []}, source_count=1, node_id=0)
        await self._told("CONSUMER_REGISTER_C2M_V2 of", "a wrong signature")
        found = await self._driver.call(client, "getPartitionMetaInfo")
        expect("partitions of a refused member", found["partitions"], {})

    async def _made(self, name: str, kind: str, user: Credentials, **more: Any) -> str:
        client = f"{self._prefix}_{name}"
        await self._driver.call(
            client, kind, masters=self._system.master, user=user.user, secret=user.secret.reveal(), **more
        )
        self._bench.closing.append(lambda: self._driver.call(client, "close"))
        return client

    def _seen(self, name: str) -> set[tuple[str, str]]:
        seen: set[tuple[str, str]] = set()
        self._driver.on_batch(
            f"{self._prefix}_{name}", lambda _, messages: seen.update((one[0], one[1]) for one in messages)
        )
        return seen

    async def _told(self, *words: str) -> None:
        """Wait until a line of the Master's log has these words."""

        def is_told() -> bool:
            return any(all(word in line for word in words) for line in self._system.master_log().splitlines())

        await until(is_told, timeout_s=READ_TIMEOUT_S)


async def _started(bench: Bench, name: str) -> AuthenticatedSystem:
    column = bench.column
    system = AuthenticatedSystem(bench.system.home / f"{column.prefix}_authenticated_{name}", bench.system.java)
    bench.closing.append(system.close)
    await system.start(java_master=column.java_master, java_broker=column.java_broker)
    return system
