"""What the handlers of one Broker share."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytubemq.broker.counters import Counters
from pytubemq.broker.expired import ExpiredMessages
from pytubemq.broker.flow import FlowControl
from pytubemq.broker.visits import Visits
from pytubemq.model.limits import MAX_PENDING_READS

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from pytubemq.broker.append import AppendPath
    from pytubemq.broker.checks import Gate
    from pytubemq.broker.positions import Positions
    from pytubemq.broker.registry import ConsumerRegistry, HoldKey
    from pytubemq.broker.reset_epochs import ResetEpochs
    from pytubemq.broker.reset_history import ResetHistory
    from pytubemq.broker.topics import TopicTable
    from pytubemq.broker.waiters import PartitionKey, Waiters
    from pytubemq.net.clock import Clock
    from pytubemq.storage.selection import Slice
    from pytubemq.storage.store import BrokerStore

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class BrokerState:
    """The parts of one Broker; touched on the event loop only."""

    gate: Gate
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
    visits: Visits = field(default_factory=Visits)
    counters: Counters = field(default_factory=Counters)
    expired: ExpiredMessages = field(default_factory=ExpiredMessages)
    max_pending_reads: int = MAX_PENDING_READS
    pending_reads: int = 0
    read_faults: dict[PartitionKey, str] = field(default_factory=dict)
    """Partitions whose last read failed for a reason of ours or the disk's, and how."""

    def skipped(self, key: HoldKey | PartitionKey, found: Slice) -> None:
        """A reader was led past messages that are lost to damage."""
        self.counters.skipped_messages += found.skipped
        logger.warning(
            "%s was led past %d damaged messages between offsets %d and %d",
            key, found.skipped, found.start_offset, found.next_offset,
        )  # fmt: skip
