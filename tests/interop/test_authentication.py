"""Authentication of Brokers at Masters of either system, and what a lost connection does to a Java consumer.

That clients with a user and its secret are let in, and others are not, the matrix shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytubemq import Credentials, connect
from pytubemq.server.processes import ServerProcess
from tests.support.ports import free_port
from tests.support.proxy import Proxy
from tests.support.waiting import until

from .authenticated_system import BROKER, MEMBER, OTHER_TOPIC, TOPIC, AuthenticatedSystem
from .driver import Driver
from .fetch import fetch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.anyio, pytest.mark.timeout(600)]

WRONG = Credentials.of(BROKER.user, "not-the-secret-of-the-broker-in-these-tests")
NOBODY = Credentials.of("nobody", BROKER.secret)
COUNT = 50
READ_TIMEOUT_S = 120.0


@pytest.fixture
async def system(tmp_path: Path) -> AsyncIterator[AuthenticatedSystem]:
    found = AuthenticatedSystem(tmp_path, fetch())
    yield found
    await found.close()


@pytest.mark.parametrize("java", [True, False], ids=["Java Master", "pytubemq Master"])
@pytest.mark.parametrize("user", [WRONG, NOBODY], ids=["wrong secret", "unknown user"])
async def test_a_broker_with_a_wrong_user_or_secret_is_refused(
    system: AuthenticatedSystem, user: Credentials, java: bool
) -> None:
    await system.start_master(java=java)
    broker = await system.start_broker(java=False, user=user)
    assert isinstance(broker, ServerProcess)
    assert broker.refused_by_master is not None


@pytest.mark.parametrize("user", [WRONG, NOBODY], ids=["wrong secret", "unknown user"])
async def test_a_java_broker_with_a_wrong_user_or_secret_is_refused(
    system: AuthenticatedSystem, user: Credentials
) -> None:
    await system.start_master(java=False)
    await system.start_broker(java=True, user=user)
    await until(lambda: "BROKER_REGISTER_B2M" in system.master_log(), timeout_s=READ_TIMEOUT_S)
    assert "broker 1 registered" not in system.master_log()


async def test_a_java_consumer_reads_on_after_its_connection_to_a_broker_was_lost(
    system: AuthenticatedSystem, tmp_path: Path
) -> None:
    await system.start_master(java=False)
    port = free_port()
    await system.start_broker(java=False, advertised=port)
    driver = await Driver(fetch(), tmp_path / "driver.log").start()
    seen: list[str] = []
    driver.on_batch("reader", lambda _, messages: seen.extend(one[1] for one in messages))
    try:
        async with (
            Proxy(system.broker, port=port) as proxy,
            connect(system.master, credentials=MEMBER) as tube,
            tube.producer(TOPIC) as producer,
        ):
            java: dict[str, Any] = {"masters": system.master, "user": MEMBER.user, "secret": MEMBER.secret.reveal()}
            await driver.call("writer", "producer", **java)
            await driver.call("writer", "publish", topics=[TOPIC])
            await driver.call(
                "reader", "consumer", push=False, group="readers", topics={TOPIC: []}, position=-1, **java
            )
            await driver.call("writer", "send", topic=TOPIC, set="one", first=0, count=COUNT, sync=True)
            await until(lambda: len(seen) >= COUNT, timeout_s=READ_TIMEOUT_S)
            held = set(await driver.call("reader", "partitions"))
            driver.codes.clear()
            await proxy.break_off()
            await driver.call("writer", "send", topic=TOPIC, set="two", first=COUNT, count=COUNT, sync=True)
            await until(lambda: len(set(seen)) == 2 * COUNT, timeout_s=READ_TIMEOUT_S)
            assert set(await driver.call("reader", "partitions")) == held
            codes = list(driver.codes["reader"])
            assert not [text for text in codes if text.startswith("415")]
            assert [text for text in codes if text.startswith("503")], codes
            await producer.send(b"x")
    finally:
        await driver.kill()


async def test_a_permission_that_is_granted_later_lets_java_clients_in(
    system: AuthenticatedSystem, tmp_path: Path
) -> None:
    await system.start(java_master=False, java_broker=False)
    driver = await Driver(fetch(), tmp_path / "driver.log").start()
    seen: set[str] = set()
    driver.on_batch("reader", lambda _, messages: seen.update(one[1] for one in messages))
    java: dict[str, Any] = {"masters": system.master, "user": MEMBER.user, "secret": MEMBER.secret.reveal()}
    try:
        await driver.call(
            "reader", "consumer", push=False, group="readers", topics={OTHER_TOPIC: []}, position=-1, **java
        )
        await driver.call("writer", "producer", **java)
        await driver.call("writer", "publish", topics=[OTHER_TOPIC])
        await until(lambda: "CONSUMER_REGISTER_C2M" in system.master_log(), timeout_s=READ_TIMEOUT_S)
        await until(lambda: "PRODUCER_HEARTBEAT_P2M" in system.master_log(), timeout_s=READ_TIMEOUT_S)
        for operation in ("produce", "consume"):
            await system.grant(MEMBER, f"{operation} topic {OTHER_TOPIC}")
        await driver.call("writer", "send", topic=OTHER_TOPIC, set="one", first=0, count=COUNT, sync=True, tries=1_000)
        await until(lambda: len(seen) == COUNT, timeout_s=READ_TIMEOUT_S)
    finally:
        await driver.kill()
