"""What clients see when something about their user is wrong: one error, with what mends it; and a secret that changes
while they run."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from pytubemq import Start, connect
from pytubemq.errors import Code, NotAllowedError
from pytubemq.security.credentials import Credentials
from tests.scenario.security.secured import address_of, cluster, is_known, user, users_of
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.server.compose import Node

pytestmark = pytest.mark.anyio
ALL = ("produce topic orders", "consume topic orders", "consume group *")


async def rotated(node: Node, name: str) -> Credentials:
    """The user with another secret, which the Broker knows."""
    assert node.master is not None
    secret = await users_of(node).rotate(name, by=node.master.change_by("test"))
    await until(lambda: is_known(node))
    return Credentials(name, secret)


async def stored(node: Node, reader: Credentials) -> list[bytes]:
    async with connect(address_of(node), credentials=reader) as tube:
        found: list[bytes] = []
        for partition in await tube.partitions("orders"):
            async with tube.reader(partition, end=Start.LATEST) as ranges:
                found += [message.body async for batch in ranges.batches() for message in batch]
        return found


async def test_sends_in_flight_are_stored_once_or_refused_with_what_to_do(tmp_path: Path) -> None:
    async with cluster(tmp_path) as node:
        old = await user(node, "ann", *ALL)
        accepted: list[bytes] = []
        refused: dict[bytes, NotAllowedError] = {}
        async with connect(address_of(node), credentials=old) as tube, tube.producer("orders") as producer:

            async def send(body: bytes) -> None:
                try:
                    await producer.send(body)
                    accepted.append(body)
                except NotAllowedError as error:
                    refused[body] = error

            async with asyncio.TaskGroup() as sends:
                for number in range(200):
                    sends.create_task(send(b"before %d" % number))
                await until(lambda: accepted)
                changing = sends.create_task(rotated(node, "ann"))
                while not changing.done():
                    sends.create_task(send(b"during %d" % len(sends._tasks)))
                    await asyncio.sleep(0.001)
                sends.create_task(send(b"after"))
        new = changing.result()
        assert b"after" in refused
        assert {error.code for error in refused.values()} <= {Code.CERTIFICATE_FAILURE, None}
        for error in refused.values():
            assert "pytubemq user list" in str(error)
            assert old.secret.reveal() not in str(error)
        found = await stored(node, new)
        assert sorted(found) == sorted(accepted), "what was acknowledged is there once, what was refused is not"
        async with connect(address_of(node), credentials=new) as tube, tube.producer("orders") as producer:
            await producer.send(b"with the new one")


async def test_a_consumer_ends_with_the_reason_also_where_it_waits_for_a_confirm(tmp_path: Path) -> None:
    async with cluster(tmp_path) as node:
        ann = await user(node, "ann", *ALL)
        async with connect(address_of(node), credentials=ann) as tube, tube.producer("orders") as producer:
            await producer.send(b"x")
        async with (
            connect(address_of(node), credentials=ann) as tube,
            tube.consumer("g", "orders", start=Start.EARLIEST) as consumer,
        ):
            batch = await consumer.next_batch()
            assert batch is not None
            new = await rotated(node, "ann")
            async with asyncio.timeout(60):  # it retries a confirm for five minutes where its Broker is only away
                with pytest.raises(NotAllowedError, match="pytubemq user rotate NAME --yes"):
                    await batch.confirm()
                with pytest.raises(NotAllowedError, match="the user or its secret is wrong"):
                    await consumer.next_batch()
        async with (
            connect(address_of(node), credentials=new) as tube,
            tube.consumer("g", "orders", start=Start.EARLIEST) as consumer,
        ):
            again = await consumer.next_batch()
            assert again is not None
            assert [message.body for message in again] == [b"x"], "it was not confirmed, so it comes again"
            await again.confirm()


async def test_a_wrong_secret_and_a_clock_that_is_off_are_said_to_be_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(tmp_path) as node:
        ann = await user(node, "ann", *ALL)

        async def refusal(credentials: Credentials) -> str:
            with pytest.raises(NotAllowedError) as caught:
                async with connect(address_of(node), credentials=credentials) as tube, tube.producer("orders"):
                    pass
            assert caught.value.code == Code.CERTIFICATE_FAILURE
            assert not caught.value.retriable
            return str(caught.value)

        wrong = await refusal(Credentials.of("ann", "w" * 43))
        assert "the user or its secret is wrong" in wrong
        assert "`pytubemq user rotate NAME --yes`" in wrong
        assert await refusal(Credentials.of("nobody", "w" * 43)) == wrong, "who exists is not said"

        class Late:
            """A clock that is a minute behind."""

            @staticmethod
            def time_ns() -> int:
                return time.time_ns() - 60_000_000_000

        monkeypatch.setattr("pytubemq.net.client.request_signer.time", Late)
        late = await refusal(ann)
        assert "60 s behind the Master's clock, 20 s are allowed" in late
        assert "`timedatectl set-ntp true`" in late
