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
from pytubemq.wire.protocol.extensions import OURS, Capability
from pytubemq.wire.rpc.methods import Method, Service

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        Method.PARTITION_OFFSETS: ranges.offsets,
        Method.RESET_OFFSETS: resets.reset,
        Method.RESET_HISTORY: resets.history,
    }
