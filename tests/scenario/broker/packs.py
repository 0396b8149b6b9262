"""Packs as a producer sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.wire.batch.record_batch import encode_columns
from pytubemq.wire.batch.send_batches import SendPacksResponse, decode_send_packs_response, encode_send_packs
from pytubemq.wire.rpc.methods import Method
from tests.scenario.broker.support import TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.scenario.broker.support import Peer

PRODUCER = 77


def pack(*payloads: bytes, flag: int = 0, code: int | Sequence[int] = -1) -> bytes:
    return encode_columns(payloads, flag, code)


async def send_packs(
    peer: Peer,
    *packs: bytes,
    partition_id: int = 0,
    sequence: int | None = None,
    epoch: int = 0,
    seen: int | None = None,
    topic: str = "demo",
) -> SendPacksResponse:
    items = [(partition_id, columns, sequence if at == 0 else None) for at, columns in enumerate(packs)]
    body = encode_send_packs(
        peer.client_id, topic, 0x7F000001, items, PRODUCER if sequence is not None else None, epoch, refusals_seen=seen
    )
    response = await peer.connection.call(Method.SEND_PACKS_P2B, 3, b"".join(body), timeout_s=TIMEOUT_S)
    return decode_send_packs_response(response.body)
