"""What the handlers of one Broker share."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytubemq.broker.counters import Counters
from pytubemq.broker.members.expired_messages import ExpiredMessages
from pytubemq.broker.members.flow_control import FlowControl
from pytubemq.broker.members.visit_tokens import VisitTokens
from pytubemq.model.limits import MAX_PENDING_READS, MAX_SHORT_REQUESTS, SHORT_REQUEST_BYTES
from pytubemq.net.server.long_work import LongWork

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from pytubemq.broker.append.append_path import AppendPath
    from pytubemq.broker.append.waiters import PartitionKey, Waiters
    from pytubemq.broker.hold_key import HoldKey
    from pytubemq.broker.members.consumer_registry import ConsumerRegistry
    from pytubemq.broker.members.positions import Positions
    from pytubemq.broker.members.reset_epochs import ResetEpochs
    from pytubemq.broker.members.reset_history import ResetHistory
    from pytubemq.broker.request_checks import ServingState
    from pytubemq.broker.topics import TopicTable
    from pytubemq.net.clock import Clock
    from pytubemq.net.server.call import Call
    from pytubemq.storage.log.selection import Slice
    from pytubemq.storage.store.store import BrokerStore

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class BrokerState:
    """The parts of one Broker; touched on the event loop only."""

    serving: ServingState
    clock: Clock
    store: BrokerStore
    topics: TopicTable
    path: AppendPath
    positions: Positions
    registry: ConsumerRegistry
    waiters: Waiters
    readers: ThreadPoolExecutor
    """Reads for fetches."""
    lookups: ThreadPoolExecutor
    """Lookups that may scan thousands of partitions, on a thread of their own so that no fetch waits for them."""
    resets: ResetHistory
    reset_epochs: ResetEpochs
    flow: FlowControl = field(default_factory=FlowControl)
    visit_tokens: VisitTokens = field(default_factory=VisitTokens)
    counters: Counters = field(default_factory=Counters)
    expired: ExpiredMessages = field(default_factory=ExpiredMessages)
    long_work: LongWork = field(default_factory=LongWork)
    short_work: LongWork = field(default_factory=lambda: LongWork(most=MAX_SHORT_REQUESTS))
    """Those of the same methods that are short, so that they do not wait for long ones."""
    max_pending_reads: int = MAX_PENDING_READS
    pending_reads: int = 0
    read_faults: dict[PartitionKey, str] = field(default_factory=dict)
    """Partitions whose last read failed for a reason of ours or the disk's, and how."""

    def turns_of(self, call: Call) -> LongWork:
        """Where a request that may concern many partitions waits; behind a long one of its connection in any case."""
        is_long = call.size_bytes > SHORT_REQUEST_BYTES or self.long_work.has_any_of(call.connection)
        return self.long_work if is_long else self.short_work

    def skipped(self, key: HoldKey | PartitionKey, found: Slice) -> None:
        """A reader was led past messages that are lost to damage."""
        self.counters.skipped_messages += found.skipped
        logger.warning(
            "%s skipped %d damaged messages between offsets %d and %d",
            key, found.skipped, found.start_offset, found.next_offset,
        )  # fmt: skip
