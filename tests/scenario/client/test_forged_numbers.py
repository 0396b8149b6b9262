"""A peer that sends under the id of a producer whose messages it has read: nothing of the producer's is lost.

The forger reads, as anybody may, what the partition has, and sends the numbers that come next, or a newer epoch. The
honest producer must have its messages stored, in order, and no receipt that is another's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

import pytest

import pytubemq
import pytubemq.sync
from pytubemq.core.sequences import MAX_EPOCH, MAX_GAPS
from pytubemq.errors import NotAllowedError
from pytubemq.model.ids import Address, Partition
from pytubemq.net.client.connection import RpcConnection
from pytubemq.server.cluster import EmbeddedCluster, ThreadedCluster
from pytubemq.wire.batch.record_batch import encode_columns
from pytubemq.wire.batch.send_batches import decode_send_packs_response, encode_send_packs
from pytubemq.wire.protocol.extensions import OURS, Capability
from pytubemq.wire.rpc.methods import Method
from tests.scenario.broker.support import TIMEOUT_S, Item, Peer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path

    from pytubemq.wire.batch.stored import StoredMessage

    Send = Callable[[pytubemq.Producer, Sequence[bytes]], Awaitable[Sequence[pytubemq.Receipt]]]

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]
WHERE = Partition(1, "demo", 0)
FORGED = b"forged"
AHEAD = 3_000
"""Numbers that are forged: those that come next."""
BEFORE = [b"before-%d" % n for n in range(8)]
AFTER = [b"after-%d" % n for n in range(400)]


class Forger:
    """Sends as the producer whose messages it finds."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    async def stored(self) -> list[bytes]:
        """All bodies of the partition that are not forged, in order."""
        return [one.payload for one in await self._read() if one.payload != FORGED]

    async def next_numbers(self) -> None:
        """Send what the producer of the newest message would send next, in one batch."""
        producer_id, epoch, sequence = await self._newest()
        items = [Item(0, FORGED, sequence=sequence + 1 + n) for n in range(AHEAD)]
        for start in range(0, AHEAD, 1_000):
            await self._batch(items[start : start + 1_000], producer_id, epoch)

    async def next_numbers_in_a_pack(self) -> None:
        """The same in a pack."""
        producer_id, epoch, sequence = await self._newest()
        columns = encode_columns([FORGED] * AHEAD, 0, -1)
        body = encode_send_packs("forger", "demo", 1, [(0, columns, sequence + 1)], producer_id, epoch)
        response = await self._peer.connection.call(Method.SEND_PACKS_P2B, 3, b"".join(body), timeout_s=TIMEOUT_S)
        assert decode_send_packs_response(response.body).success

    async def some_of_the_next_numbers(self) -> None:
        """Every third of them, so that an answer says different things of neighbours."""
        producer_id, epoch, sequence = await self._newest()
        items = [Item(0, FORGED, sequence=sequence + 1 + n) for n in range(0, 300, 3)]
        await self._batch(items, producer_id, epoch)

    async def last_epoch(self) -> None:
        """Shut the producer out."""
        producer_id, _, _ = await self._newest()
        await self._batch([Item(0, FORGED, sequence=0)], producer_id, MAX_EPOCH)

    async def many_gaps(self) -> None:
        """Have the Broker forget what it knows of the producer."""
        producer_id, epoch, sequence = await self._newest()
        items = [Item(0, FORGED, sequence=sequence + 10_000 + 2 * n) for n in range(MAX_GAPS + 5)]
        await self._batch(items[:MAX_GAPS], producer_id, epoch)
        await self._batch(items[MAX_GAPS:], producer_id, epoch)

    async def _newest(self) -> tuple[int, int, int]:
        newest = next(one for one in reversed(await self._read()) if one.payload != FORGED)
        assert newest.producer_id is not None
        assert newest.sequence is not None
        return newest.producer_id, newest.producer_epoch or 0, newest.sequence

    async def _batch(self, items: Sequence[Item], producer_id: int, epoch: int) -> None:
        assert (await self._peer.send_many(items, producer_id=producer_id, epoch=epoch)).success

    async def _read(self) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        offset = 0
        while True:
            answer, some = await self._peer.read_range(offset)
            if not some:
                return found
            found += some
            assert answer.next_offset is not None
            offset = answer.next_offset


@contextlib.asynccontextmanager
async def forging(broker: str) -> AsyncIterator[Forger]:
    host, _, port = broker.rpartition(":")
    connection = await RpcConnection.connect(Address(host, int(port)), capabilities=OURS & ~Capability.PACKS)
    try:
        yield Forger(Peer(connection))
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def scene(data_dir: Path, **options: bool) -> AsyncIterator[tuple[Forger, pytubemq.Producer, EmbeddedCluster]]:
    """A cluster with a partition, an honest producer and a forger."""
    async with EmbeddedCluster(data_dir=data_dir) as cluster:
        await cluster.create_topic("demo", partitions=1)
        async with (
            forging(cluster.brokers[1]) as forger,
            pytubemq.connect(cluster.master) as tube,
            tube.producer("demo", **options) as producer,
        ):
            yield forger, producer, cluster


async def one_after_the_other(
    producer: pytubemq.Producer, bodies: Sequence[bytes], **fields: object
) -> list[pytubemq.Receipt]:
    return [await producer.send(body, **fields) for body in bodies]  # type: ignore[arg-type]  # a key or an attribute


async def with_keys(producer: pytubemq.Producer, bodies: Sequence[bytes]) -> list[pytubemq.Receipt]:
    return await one_after_the_other(producer, bodies, key="k")


async def all_at_once(producer: pytubemq.Producer, bodies: Sequence[bytes]) -> list[pytubemq.Receipt]:
    return await asyncio.gather(*[producer.submit(body) for body in bodies])


async def all_with_keys(producer: pytubemq.Producer, bodies: Sequence[bytes]) -> list[pytubemq.Receipt]:
    return await asyncio.gather(*[producer.submit(body, key="k") for body in bodies])


async def together(producer: pytubemq.Producer, bodies: Sequence[bytes]) -> Sequence[pytubemq.Receipt]:
    return await producer.send_many(bodies)


async def several_lots(producer: pytubemq.Producer, bodies: Sequence[bytes]) -> list[pytubemq.Receipt]:
    lots = await asyncio.gather(*[producer.submit_many(bodies[at : at + 50]) for at in range(0, len(bodies), 50)])
    return [receipt for lot in lots for receipt in lot]


async def mixed(producer: pytubemq.Producer, bodies: Sequence[bytes]) -> list[pytubemq.Receipt]:
    """Every form in one turn of the loop."""
    third = len(bodies) // 3
    plain = [producer.submit(body) for body in bodies[:third]]
    lot = producer.submit_many(bodies[third : 2 * third])
    keyed = [producer.submit(body, key="k") for body in bodies[2 * third :]]
    return [*await asyncio.gather(*plain), *await lot, *await asyncio.gather(*keyed)]


FORMS = pytest.mark.parametrize(
    "send", [one_after_the_other, with_keys, all_at_once, all_with_keys, together, several_lots, mixed]
)


async def check(forger: Forger, receipts: Sequence[pytubemq.Receipt], expected: Sequence[bytes]) -> None:
    """All are there, once and in order, and each receipt is its own message's."""
    assert await forger.stored() == list(expected)
    assert not any(receipt.repeated for receipt in receipts)
    offsets = [receipt.offset for receipt in receipts if receipt.offset is not None]
    assert offsets == sorted(set(offsets))
    assert len(offsets) == len(receipts)


@FORMS
async def test_numbers_that_are_taken_by_another_cost_no_message(
    send: Send, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with scene(tmp_path) as (forger, producer, _):
        await send(producer, BEFORE)
        await forger.next_numbers()
        with caplog.at_level(logging.WARNING, "pytubemq.client.producer.sequence_numbers"):
            receipts = await send(producer, AFTER)
            await forger.next_numbers_in_a_pack()
            receipts = [*receipts, *await send(producer, AFTER)]
        await check(forger, receipts, [*BEFORE, *AFTER, *AFTER])
        told = [record for record in caplog.records if record.name == "pytubemq.client.producer.sequence_numbers"]
        assert len(told) == 1, "once, however often it is found"
        assert "another client sends to topic demo as producer" in told[0].getMessage()


@FORMS
async def test_a_message_stays_acknowledged_where_its_neighbours_number_is_taken(send: Send, tmp_path: Path) -> None:
    async with scene(tmp_path) as (forger, producer, _):
        await send(producer, BEFORE)
        await forger.some_of_the_next_numbers()
        receipts = await send(producer, AFTER)
        assert not any(receipt.repeated for receipt in receipts)
        stored = await forger.stored()
        assert sorted(stored) == sorted([*BEFORE, *AFTER])
        assert [stored[(receipt.offset or 0) // 28 - 100] for receipt in receipts] == AFTER, "100 are forged"


@FORMS
async def test_a_forged_epoch_shuts_nobody_out(send: Send, tmp_path: Path) -> None:
    async with scene(tmp_path) as (forger, producer, _):
        await send(producer, BEFORE)
        await forger.last_epoch()
        await check(forger, await send(producer, AFTER), [*BEFORE, *AFTER])


@FORMS
async def test_numbers_that_a_forger_has_made_the_broker_forget_cost_no_message(send: Send, tmp_path: Path) -> None:
    async with scene(tmp_path) as (forger, producer, _):
        await send(producer, BEFORE)
        await forger.many_gaps()
        await check(forger, await send(producer, AFTER), [*BEFORE, *AFTER])


async def test_a_forged_epoch_shuts_nobody_out_who_sends_each_message_by_itself(tmp_path: Path) -> None:
    async with scene(tmp_path, batching=False) as (forger, producer, _):
        await all_at_once(producer, BEFORE)
        await forger.last_epoch()
        await check(forger, await all_at_once(producer, AFTER), [*BEFORE, *AFTER])


async def test_the_first_message_on_a_new_connection_cannot_be_forged(tmp_path: Path) -> None:
    """It leaves by itself, and such an answer does not tell a repeat."""
    async with scene(tmp_path) as (_, producer, cluster):
        await all_at_once(producer, BEFORE)
        await cluster.restart_broker()
        async with forging(cluster.brokers[1]) as forger:
            await forger.next_numbers()
            await check(forger, await one_after_the_other(producer, AFTER[:20]), [*BEFORE, *AFTER[:20]])


async def test_an_id_that_was_given_is_kept_and_the_error_says_what_to_do(tmp_path: Path) -> None:
    async with EmbeddedCluster(data_dir=tmp_path) as cluster:
        await cluster.create_topic("demo", partitions=1)
        async with forging(cluster.brokers[1]) as forger, pytubemq.connect(cluster.master) as tube:
            producer = tube.producer("demo", delivery_timeout_s=2.0)
            producer.number_as(77, 3)
            async with producer:
                await together(producer, BEFORE)
                await forger.last_epoch()
                with pytest.raises(NotAllowedError, match=r"(?s)newer epoch.*nobody else may send as producer 77"):
                    await producer.send(b"after")


def test_the_sync_producer_loses_nothing_either(tmp_path: Path) -> None:
    with ThreadedCluster(data_dir=tmp_path) as cluster:
        cluster.create_topic("demo", partitions=1)

        async def forge(*, stored: bool = False) -> list[bytes]:
            async with forging(cluster.brokers[1]) as forger:
                if stored:
                    return await forger.stored()
                await forger.next_numbers()
                return []

        with pytubemq.sync.connect(cluster.master) as tube, tube.producer("demo") as producer:
            for body in BEFORE:
                producer.send(body)
            asyncio.run(forge())
            receipts = [*[producer.send(body) for body in AFTER[:20]], *producer.send_many(AFTER)]
        assert not any(receipt.repeated for receipt in receipts)
        assert asyncio.run(forge(stored=True)) == [*BEFORE, *AFTER[:20], *AFTER]
