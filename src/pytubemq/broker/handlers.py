"""The Broker's table of methods and their handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.broker.consume.fetch import FetchHandlers
from pytubemq.broker.consume.range_reads import RangeHandlers
from pytubemq.broker.consume.registration import RegisterHandlers
from pytubemq.broker.offsets.resets import ResetHandlers
from pytubemq.broker.produce.batch_sends import BatchSendHandlers
from pytubemq.broker.produce.send import SendHandlers
from pytubemq.broker.produce.send_run import RunHandlers
from pytubemq.errors import Code
from pytubemq.net.server.waiting_calls import bounded
from pytubemq.wire.protocol.extensions import OURS, Capability
from pytubemq.wire.protocol.messages.extension import (
    PartitionOffsetsResponse,
    ResetHistoryResponse,
    ResetOffsetsResponse,
)
from pytubemq.wire.rpc.methods import Method, Service
from pytubemq.wire.serialization.message_bytes import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytubemq.broker.produce.send_checks import SendChecks
    from pytubemq.broker.state import BrokerState
    from pytubemq.net.server.call import Handler
    from pytubemq.net.server.call_run import RunHandler

OFFERED: Final = frozenset({Service.BROKER_READ.value, Service.BROKER_WRITE.value})
"""The protocol's services of a Broker, both on its one port."""

CAPABILITIES: Final = (
    OURS | Capability.PACKS | Capability.IDEMPOTENT | Capability.OFFSET_BY_TIME | Capability.RESET_OFFSETS
)
"""The extensions that a Broker announces to peers that announce theirs."""


def run_handlers(state: BrokerState, checks: SendChecks) -> Mapping[int, RunHandler]:
    """Return the handlers of methods that serve several requests at once."""
    return {Method.SEND_MESSAGE_P2B: RunHandlers(state, checks).send_run}


def handlers(state: BrokerState, checks: SendChecks) -> Mapping[int, Handler]:
    """Return the method table of a Broker."""
    send, packs = SendHandlers(state, checks), BatchSendHandlers(state, checks)
    register, fetch, ranges = RegisterHandlers(state), FetchHandlers(state), RangeHandlers(state)
    resets = ResetHandlers(state)
    return {
        Method.SEND_MESSAGE_P2B: send.send,
        Method.SEND_PACKS_P2B: packs.send_packs,
        Method.CONSUMER_REGISTER_C2B: register.register,
        Method.CONSUMER_HEARTBEAT_C2B: register.heartbeat,
        Method.GET_MESSAGE_C2B: fetch.get,
        Method.CONSUMER_COMMIT_C2B: fetch.commit,
        Method.READ_RANGE_C2B: ranges.read_range,
        Method.PARTITION_OFFSETS: bounded(ranges.offsets, _refusal(PartitionOffsetsResponse)),
        Method.RESET_OFFSETS: bounded(resets.reset, _refusal(ResetOffsetsResponse)),
        Method.RESET_HISTORY: bounded(resets.history, _refusal(ResetHistoryResponse)),
    }


def _refusal(
    response: type[PartitionOffsetsResponse | ResetOffsetsResponse | ResetHistoryResponse],
) -> Callable[[str], bytes]:
    """Return a function that makes the response for a Broker that has too much to do."""
    return lambda text: encode(response(success=False, err_code=Code.SERVICE_UNAVAILABLE, err_msg=text))
