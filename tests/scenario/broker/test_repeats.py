"""Messages that are sent again, in whatever request, stand once and are told where."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pytubemq.core.sequences import MAX_GAPS, MAX_PLACES
from pytubemq.errors import Code
from pytubemq.wire.batch.record_batch import encode_columns
from pytubemq.wire.batch.send_batches import SendPacksResponse, decode_send_packs_response, encode_send_packs
from pytubemq.wire.fast import sends
from pytubemq.wire.protocol.messages.broker import SendMessageResponseB2P
from pytubemq.wire.rpc.methods import Method
from pytubemq.wire.serialization.message_bytes import decode
from tests.scenario.broker.support import TIMEOUT_S, Item, ManyResults, Peer, connected, running

pytestmark = pytest.mark.anyio
PRODUCER = 5


class Numbering:
    """A producer that numbers its messages, by every method there is."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    async def _call(self, method: Method, body: bytes) -> bytes:
        return (await self._peer.connection.call(method, 3, body, timeout_s=TIMEOUT_S)).body

    async def single(
        self, sequence: int, *, epoch: int = 0, partition_id: int = 0, producer_id: int = PRODUCER
    ) -> SendMessageResponseB2P:
        template = sends.SendTemplate(self._peer.client_id, "demo", 1)
        body = template.encode(
            partition_id, b"%d" % sequence, 0, sequence=sequence, producer_id=producer_id, producer_epoch=epoch
        )
        return decode(SendMessageResponseB2P, await self._call(Method.SEND_MESSAGE_P2B, body))

    async def batch(self, *sequences: int, epoch: int = 0) -> ManyResults:
        items = [Item(0, b"%d" % sequence, sequence=sequence) for sequence in sequences]
        return await self._peer.send_many(items, producer_id=PRODUCER, epoch=epoch)

    async def pack(self, first: int, count: int, *, epoch: int = 0) -> SendPacksResponse:
        columns = encode_columns([b"%d" % (first + n) for n in range(count)], 0, -1)
        body = encode_send_packs(self._peer.client_id, "demo", 1, [(0, columns, first)], PRODUCER, epoch)
        return decode_send_packs_response(await self._call(Method.SEND_PACKS_P2B, b"".join(body)))

    async def stored(self) -> int:
        return (await self._peer.offsets(("demo", 0))).partitions[0].max_offset // 28


async def test_a_repeat_is_known_by_whatever_method_it_comes() -> None:
    async with running() as broker, connected(broker) as peer:
        producer = Numbering(peer)
        first = await producer.pack(0, 4)
        one = await producer.single(4)
        assert (one.append_offset, one.err_code) == (112, 200)
        again = await producer.batch(2, 4, 5)
        assert (list(again.err_codes), list(again.offsets)) == ([200, 200, 200], [56, 112, 140])
        assert again.message_ids[1] == one.message_id
        alone = await producer.single(0)
        assert (alone.append_offset, alone.message_id) == (0, first.results[0][0].first_message_id)
        mixed = await producer.pack(4, 4)
        spans = mixed.results[0]  # the repeats are two where the two requests before did not come at the same moment
        assert [span.first_offset for span in spans if span.repeated] in ([112], [112, 140])
        assert [(span.messages, span.first_offset) for span in spans if not span.repeated] == [(2, 168)]
        assert sum(span.messages for span in spans) == 4
        assert await producer.stored() == 8


async def test_a_repeat_within_one_batch_is_known() -> None:
    async with running() as broker, connected(broker) as peer:
        producer = Numbering(peer)
        answer = await producer.batch(0, 1, 1, 0)
        assert (list(answer.err_codes), list(answer.offsets)) == ([200] * 4, [0, 28, 28, 0])
        assert await producer.stored() == 2


async def test_an_older_life_of_a_producer_is_kept_out_by_every_method() -> None:
    async with running() as broker, connected(broker) as peer:
        producer = Numbering(peer)
        await producer.single(0, epoch=3)
        refused: Any = await producer.single(1, epoch=2)
        assert (refused.success, refused.err_code, bool(refused.err_msg)) == (False, Code.FORBIDDEN, True)
        batch = await producer.batch(1, 2, epoch=2)
        assert (list(batch.err_codes), batch.err_code, list(batch.offsets)) == ([403, 403], 403, [-1, -1])
        packs = await producer.pack(1, 2, epoch=2)
        assert [(span.messages, span.code, span.first_offset) for span in packs.results[0]] == [(2, 403, -1)]
        assert (await producer.single(0, partition_id=1, epoch=2)).success, "another partition was not told"
        assert await producer.stored() == 1


async def test_what_is_too_old_to_be_told_from_a_repeat_is_refused_and_what_is_known_but_not_where_is_not_stored() -> (
    None
):
    async with running() as broker, connected(broker) as peer:
        producer = Numbering(peer)
        await producer.batch(*range(0, 4 * MAX_PLACES, 2))  # gaps, so that each has a place of its own
        stored = await producer.stored()
        known = await producer.single(0)
        assert (known.err_code, known.append_offset) == (200, -1), "it stands somewhere"
        await producer.batch(*range(4 * MAX_PLACES, 4 * MAX_PLACES + 2 * MAX_GAPS, 2))
        old = await producer.single(1)
        assert (old.success, old.err_code) == (False, Code.BAD_REQUEST)
        assert old.err_msg
        assert await producer.stored() == stored + MAX_GAPS


async def test_numbers_that_no_producer_gives_are_refused() -> None:
    async with running() as broker, connected(broker) as peer:
        producer = Numbering(peer)
        assert (await producer.single(-1)).err_code == Code.BAD_REQUEST
        assert (await producer.single(0, producer_id=0)).err_code == Code.BAD_REQUEST
        assert (await producer.single(0, epoch=-1)).err_code == Code.BAD_REQUEST
        assert (await producer.batch(3, -3)).err_code == Code.BAD_REQUEST
        assert await producer.stored() == 0


async def test_a_number_that_cannot_be_stored_is_refused_for_itself_and_costs_nobody_else() -> None:
    last = (1 << 63) - 2
    async with running() as broker, connected(broker) as odd, connected(broker) as other:
        producer = Numbering(odd)
        beside = [asyncio.create_task(other.send(b"%d" % n)) for n in range(5)]
        assert (await producer.single(last + 1)).err_code == Code.BAD_REQUEST
        assert (await producer.batch(last + 1)).err_code == Code.BAD_REQUEST
        assert (await producer.pack(last, 2)).err_code == Code.BAD_REQUEST
        assert (await producer.pack(last - 1, 2)).success
        assert all([(await send).success for send in beside])
        assert await producer.stored() == 7
        assert broker.health()["status"] == "ok"
