"""A query's progress as a group's position at the Brokers, where operators look for lag.

The query is the group's only member: it holds the partitions without reading from them. So a group that others use is
refused, and so is a second query; and a query that is killed frees the group a few seconds later. The invariants: what
is published is never ahead of what the query's checkpoint has finished; nothing is read back, so a query never depends
on it; once the query runs, a failure to publish is logged and tried again, and never ends it.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError, GroupMismatchError, NotFoundError, OccupiedError, TransportError, TubeError
from pytubemq.model.ids import Partition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytubemq.sync import BalanceConsumer, Tube

logger = logging.getLogger(__name__)

EVERY_S: Final = 1.0
"""Progress is published at most so often, while there is more to do."""
PREDECESSOR_S: Final = 15.0
"""Seconds to wait for a member that may have died; a Master of ours drops one within 3 s of its connection."""
AT_ONCE: Final = 8
"""Partitions published at the same time."""


class GroupProgress:
    """Publishes offsets as the position of one group."""

    def __init__(self, group: str, tube: Callable[[], Tube]) -> None:
        """Create it; `tube` returns the connection, a new one after it was closed."""
        self._group = group
        self._tube = tube
        self._member: BalanceConsumer | None = None
        self._over: Tube | None = None
        """The connection that the member was made of."""
        self._topics: tuple[str, ...] = ()
        self._published: dict[str, int] = {}
        self._at_s = float("-inf")
        self._reported = False
        """True once a failure that lasts has been logged."""

    @property
    def opened(self) -> bool:
        """True if the group is ours."""
        return self._member is not None

    def open(self, offsets: Mapping[str, int]) -> None:
        """Take the group, and put it to these offsets.

        Raises:
            ConfigError: others use it.
            TubeError: it cannot be taken.
        """
        try:
            self._take(offsets)
        except TransportError:  # the connection may be an old one; a new one is made
            self.close()
            self._take(offsets)

    def publish(self, offsets: Mapping[str, int], *, at_once: bool) -> None:
        """Report how far the query is; not more often than once in `EVERY_S` unless `at_once`."""
        now_s = time.monotonic()
        if offsets == self._published or (not at_once and now_s - self._at_s < EVERY_S):
            return
        self._at_s = now_s
        try:
            if self._member is None or self._over is not self._tube() or self._topics_of(offsets) != self._topics:
                self.close()
                self._take(offsets)
            else:
                self._move(self._member, offsets)
        except TubeError as error:
            if not self._reported:
                logger.warning("the progress of group %s cannot be published for now: %s", self._group, error)
            self._reported = True
        else:
            self._reported = False

    def close(self) -> None:
        """Leave the group; what was published stays."""
        member, self._member = self._member, None
        self._published = {}
        if member is None:
            return
        try:
            member.close()
        except TubeError as error:
            logger.info("leaving group %s failed: %s", self._group, error)

    @staticmethod
    def _topics_of(offsets: Mapping[str, int]) -> tuple[str, ...]:
        return tuple(sorted({Partition.parse(key).topic for key in offsets}))

    def _take(self, offsets: Mapping[str, int]) -> None:
        topics = self._topics_of(offsets)
        if not topics:
            return
        tube = self._tube()
        member = tube.balance_consumer(
            self._group, *topics, node_id=0, source_count=1, manual=True, node_wait_s=PREDECESSOR_S
        )
        try:
            member.__enter__()
        except GroupMismatchError as error:
            raise self._in_use(error) from error
        self._member, self._over, self._topics, self._published = member, tube, topics, {}
        try:
            self._move(member, offsets)
        except OccupiedError as error:
            self.close()
            raise self._in_use(error) from error
        except BaseException:
            self.close()
            raise

    def _move(self, member: BalanceConsumer, offsets: Mapping[str, int]) -> None:
        changed = [(key, offset) for key, offset in offsets.items() if self._published.get(key) != offset]
        held = set(member.assignment)

        def move(key: str, offset: int) -> None:
            partition = Partition.parse(key)
            if partition in held:
                try:
                    member.seek(partition, offset)
                except NotFoundError:  # it was lost a moment ago
                    member.connect(partition, offset)
            else:
                member.connect(partition, offset)
            self._published[key] = offset

        with ThreadPoolExecutor(min(AT_ONCE, max(1, len(changed)))) as pool:
            for moved in [pool.submit(move, key, offset) for key, offset in changed]:
                moved.result()

    def _in_use(self, error: TubeError) -> ConfigError:
        return ConfigError(
            f"commitGroup {self._group} is in use by a consumer or by another query: {error.message}",
            hint="give each query a commitGroup of its own, which nobody reads with "
            f"(pytubemq group show {self._group} shows who does)",
        )
