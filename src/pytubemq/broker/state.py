"""The state that the handlers of one Broker share."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytubemq.broker.counters import Counters
from pytubemq.broker.members.caller_access import CallerAccess
from pytubemq.broker.members.expired_messages import ExpiredMessages
from pytubemq.broker.members.flow_control import FlowControl
from pytubemq.model.limits import MAX_PENDING_READS, MAX_SHORT_REQUESTS, SHORT_REQUEST_BYTES
from pytubemq.net.server.long_work import LongWork

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from pytubemq.broker.append.append_path import AppendPath
    from pytubemq.broker.append.waiters import PartitionKey, Waiters
    from pytubemq.broker.members.consumer_registry import ConsumerRegistry
    from pytubemq.broker.members.positions import Positions
    from pytubemq.broker.members.reset_epochs import ResetEpochs
    from pytubemq.broker.members.reset_history import ResetHistory
    from pytubemq.broker.registration_key import RegistrationKey
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
    """The thread for lookups that may scan thousands of partitions, so that no fetch waits for them."""
    resets: ResetHistory
    reset_epochs: ResetEpochs
    flow: FlowControl = field(default_factory=FlowControl)
    access: CallerAccess = field(default_factory=CallerAccess)
    counters: Counters = field(default_factory=Counters)
    expired: ExpiredMessages = field(default_factory=ExpiredMessages)
    long_work: LongWork = field(default_factory=LongWork)
    short_work: LongWork = field(default_factory=lambda: LongWork(most=MAX_SHORT_REQUESTS))
    """The turns of the same methods' short requests, so that they do not wait for long ones."""
    max_pending_reads: int = MAX_PENDING_READS
    pending_reads: int = 0
    read_faults: dict[PartitionKey, str] = field(default_factory=dict)
    """The texts of faults by partition whose last read failed for a reason of ours or the disk's."""

    def turns_of(self, call: Call) -> LongWork:
        """Return the queue for a request that may concern many partitions, in order with its connection's long ones."""
        is_long = call.size_bytes > SHORT_REQUEST_BYTES or self.long_work.has_any_of(call.connection)
        return self.long_work if is_long else self.short_work

    def skipped(self, key: RegistrationKey | PartitionKey, found: Slice) -> None:
        """Count and log messages lost to damage that a reader skipped."""
        self.counters.skipped_messages += found.skipped
        logger.warning(
            "%s skipped %d damaged messages between offsets %d and %d",
            key, found.skipped, found.start_offset, found.next_offset,
        )  # fmt: skip
