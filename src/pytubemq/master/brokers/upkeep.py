"""Changes of records that follow from Brokers' heartbeats, written after the responses.

The invariants: writes happen one after another, each on the record as it is then; one that fails is shown in the
health and retried with the next heartbeat, since a Broker repeats its report until the Master has recorded it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from pytubemq.errors import TubeError
from pytubemq.master.brokers.absent_brokers import AUTO_REPORT_USER, author_of_report, is_brokers_own, is_unused
from pytubemq.master.brokers.limited_log import LimitedLog
from pytubemq.master.catalogue.topic_deletion import with_records
from pytubemq.model.records import TopicStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Coroutine, Hashable
    from typing import Any

    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.master.stories.stories import Stories
    from pytubemq.model.records import ManageStatus
    from pytubemq.net.clock import Clock

logger = logging.getLogger(__name__)


class BrokerUpkeep:
    """Background changes of records: statuses, ports of web pages, and topics that Brokers have removed."""

    def __init__(self, catalogue: Catalogue, clock: Clock, stories: Stories) -> None:
        self.problem: str | None = None
        """The error of the last write; None once one succeeded."""
        self._catalogue = catalogue
        self._clock = clock
        self._stories = stories
        self._log = LimitedLog(logger, "deletions of records of unused Brokers")
        self._tasks: dict[Hashable, asyncio.Task[None]] = {}

    def give_status(self, broker_id: int, status: ManageStatus) -> None:
        """Give a Broker the status that follows from its reports; the record of an unused one stays as it is."""
        record = self._catalogue.brokers.get(broker_id)
        if record is None or is_unused(self._catalogue, record):
            return  # it serves nothing, and a changed record would be kept for good
        self._start(("status", broker_id), self._give_status(broker_id, status))

    def give_web_port(self, broker_id: int, port: int) -> None:
        """Record the real port of a Broker's web pages, unless an operator has changed the record."""
        record = self._catalogue.brokers.get(broker_id)
        if record is not None and is_brokers_own(record):
            self._start(("web port", broker_id), self._give_web_port(broker_id, port))

    def forget_places(self, broker_id: int, topics: frozenset[str]) -> None:
        """Delete the deployments of topics that a Broker has removed, where an operator requested the removal."""
        removed = [place for topic in topics if (place := self._catalogue.deployed(topic).get(broker_id)) is not None]
        if any(deploy.topic_status is TopicStatus.SOFT_REMOVED for deploy in removed):
            self._start(("places", broker_id), self._forget_places(broker_id, topics))

    def delete_unused(
        self, broker_ids: frozenset[int], present: Container[int], on_gone: Callable[[int], None]
    ) -> None:
        """Delete the records of auto-registered Brokers without topics that have been away for too long."""
        self._start("unused", self._delete_unused(broker_ids, present, on_gone))

    async def close(self) -> None:
        """Wait for running writes."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _give_status(self, broker_id: int, status: ManageStatus) -> None:
        async with self._catalogue.lock:
            record = self._catalogue.brokers.get(broker_id)
            if record is None or record.manage_status is status:
                return
            user = author_of_report(record, AUTO_REPORT_USER)
            stamp = replace(record.stamp, modify_user=user, modify_ms=self._clock.wall_ms())
            await self._catalogue.apply([replace(record, manage_status=status, stamp=stamp)])
        self._stories.record_broker(
            broker_id, "status", f"{record.manage_status.text} -> {status.text}", "it reports faults of its storage"
        )
        logger.warning(
            "broker %d reports faults of its storage: it is %s from now on, instead of %s",
            broker_id,
            status.text,
            record.manage_status.text,
        )

    async def _give_web_port(self, broker_id: int, port: int) -> None:
        async with self._catalogue.lock:
            record = self._catalogue.brokers.get(broker_id)
            if record is not None and is_brokers_own(record) and record.web_port != port:
                await self._catalogue.apply([replace(record, web_port=port)])

    async def _forget_places(self, broker_id: int, topics: frozenset[str]) -> None:
        async with self._catalogue.lock:
            gone = [
                deploy
                for topic in sorted(topics)
                if (deploy := self._catalogue.deployed(topic).get(broker_id)) is not None
                and deploy.topic_status is TopicStatus.SOFT_REMOVED
            ]
            await self._catalogue.apply(deletes=with_records(self._catalogue, gone))
        for deploy in gone:
            logger.info("topic %s is removed from broker %d", deploy.topic, broker_id)

    async def _delete_unused(
        self, broker_ids: frozenset[int], present: Container[int], on_gone: Callable[[int], None]
    ) -> None:
        async with self._catalogue.lock:
            known = [self._catalogue.brokers[one] for one in broker_ids if one in self._catalogue.brokers]
            gone = [one for one in known if one.broker_id not in present and is_unused(self._catalogue, one)]
            await self._catalogue.apply(deletes=gone)
        for record in gone:
            on_gone(record.broker_id)
        if gone:
            self._log.info(
                self._clock.now_s(),
                "deleted the records of %d Brokers that are away and hold no topic, broker %d at %s among them",
                len(gone),
                gone[0].broker_id,
                gone[0].address,
            )

    def _start(self, key: Hashable, work: Coroutine[Any, Any, None]) -> None:
        """Start a write; one of a kind per Broker at a time, since the next report brings what came too late for it."""
        if key in self._tasks:
            work.close()
            return
        self._tasks[key] = asyncio.get_running_loop().create_task(self._watched(key, work))

    async def _watched(self, key: Hashable, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except TubeError as error:
            self.problem = f"cannot write what a Broker reported: {error}"
            logger.error("%s", self.problem)
        except Exception:
            self.problem = "cannot write what a Broker reported"
            logger.exception("%s", self.problem)
        else:
            self.problem = None
        finally:
            del self._tasks[key]
