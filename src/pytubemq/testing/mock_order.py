"""The mock's copy of a pytubemq Broker's rule that keeps the batches of a producer in order.

The invariant: if a producer counts its refusals, no batch is stored that it sent without knowledge of an earlier
one that was refused for now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import Code
from pytubemq.wire.protocol.messages.extension import (
    SendPacksRequestP2B,
    SendPacksResponseB2P,
)

if TYPE_CHECKING:
    from pytubemq.net.server.call import Call

FOR_NOW = frozenset({Code.SERVER_RECEIVE_OVERFLOW, Code.SERVICE_UNAVAILABLE})
_CONTEXT = "mock send order"


def behind(call: Call, request: object) -> bool:
    """True if `request` is a batch that was sent without knowledge of an earlier refusal."""
    if not isinstance(request, SendPacksRequestP2B) or request.refusals_seen is None:
        return False
    return _counts(call).get(_producer(request), 0) > request.refusals_seen


def answered(call: Call, request: object, answer: object) -> None:
    """Count the response, if it refuses anything for now."""
    codes: set[int] = set()
    if isinstance(answer, SendPacksResponseB2P):
        codes = {answer.err_code, *(span.err_code for result in answer.results for span in result.spans)}
    if not FOR_NOW.isdisjoint(codes):
        dropped(call, request)


def dropped(call: Call, request: object) -> None:
    """Count a batch that was not stored and is sent again."""
    if isinstance(request, SendPacksRequestP2B) and request.refusals_seen is not None:
        counts = _counts(call)
        counts[_producer(request)] = counts.get(_producer(request), 0) + 1


def _producer(request: SendPacksRequestP2B) -> tuple[str, str]:
    return request.client_id, request.topic_name


def _counts(call: Call) -> dict[tuple[str, str], int]:
    counts: dict[tuple[str, str], int] = call.connection.context.setdefault(_CONTEXT, {})
    return counts
