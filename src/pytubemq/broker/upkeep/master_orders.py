"""The Master's orders, put in force: topics, stops, flow-control rules, tokens, removals.

The invariants: a configuration is on disk before it is applied; an order that is in force already changes nothing; a
topic that is being removed is not served, whatever the configuration says.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from pytubemq.broker.topics import TopicReader
from pytubemq.broker.upkeep.stored_topics import passed_over_text, unserved
from pytubemq.broker.upkeep.topic_removal import TopicRemoval
from pytubemq.core.flow import parse_rules
from pytubemq.observe.trace_events import PARTITION
from pytubemq.security.access_rules import AccessRules, UserRules, read_permissions
from pytubemq.security.token_keys import ClientKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.broker.state import BrokerState
    from pytubemq.broker.topics import MasterConfig
    from pytubemq.broker.upkeep.stored_topics import StoredTopics
    from pytubemq.broker.upkeep.topic_file import TopicFile
    from pytubemq.model.topic import TopicConfig
    from pytubemq.wire.protocol.messages.master import BrokerAccess, EnableBrokerFunInfo

logger = logging.getLogger(__name__)

_NO_RULES: Final = (
    "every caller is refused, as security.authentication is enforced here and the Master sends no users and "
    "permissions: set it at the Master, too; under a Java Master, whose own settings decide, set it to off here"
)


class MasterOrders:
    """The orders of the Master to one Broker: configurations, stops, rules, tokens, removals. Event loop only."""

    def __init__(self, state: BrokerState, file: TopicFile, stored: StoredTopics) -> None:
        """Prepare without serving a topic; `stored` are the topics in the store at the start."""
        self.removal = TopicRemoval(state, on_change=self._serve)
        self._state = state
        self._file = file
        self._reader = TopicReader()
        self._topics: tuple[TopicConfig, ...] = ()
        self._at_start = stored
        self._beyond: dict[str, list[int]] = {}
        """Partitions of served topics that were stored at the start and that the configuration does not name."""
        self._sent_no_rules = False
        self._passed_over: list[str] = []
        """Topics of the store that a Master skipped, as of `compare`; without those that it has sent since."""

    @property
    def problem(self) -> str | None:
        """The reason why topics or partitions from before the start, or any, are not served; None if there is none."""
        if self._file.loss is not None:
            return self._file.loss
        if self._sent_no_rules and self._state.access.lacks_rules:
            return _NO_RULES
        return passed_over_text(self._passed_over) or unserved(self._state.store, self._beyond)

    @property
    def stored(self) -> StoredTopics:
        """The topics of the store while no configuration names the topics; none otherwise."""
        return self._file.stored

    @property
    def stored_topics(self) -> tuple[str, ...]:
        """The stored topics in the form of a registration."""
        return self._file.stored.confs()

    def compare(self, reported: StoredTopics) -> None:
        """Report topics of the store that a Master skipped in its response to the registration that reported them.

        A Master that reads the report sends no topics before an operator has decided; another one does.
        """
        if not self._file.config.has_topics:
            return
        known = {topic.name for topic in self._topics} | self.removal.hidden
        self._passed_over = [name for name in reported.names() if name not in known]
        if self._passed_over:
            logger.error("%s", passed_over_text(self._passed_over))

    def serve(self, topics: Iterable[TopicConfig]) -> None:
        """Serve these topics and no others."""
        self._topics = tuple(topics)
        if self._passed_over:
            known = {topic.name for topic in self._topics}
            self._passed_over = [name for name in self._passed_over if name not in known]
        self._serve()

    def _serve(self) -> None:
        hidden = self.removal.hidden
        served = [topic for topic in self._topics if topic.name not in hidden] if hidden else self._topics
        changes = self._state.topics.compare(served)
        for gone in changes.gone:
            self._state.store.set_retention(gone, None)
            self._beyond.pop(gone, None)
        for topic in changes.changed:
            self._state.store.set_durability(topic.name, topic.durability)
            self._state.store.set_retention(topic.name, topic.retention)
            if beyond := self._at_start.beyond(topic):
                self._beyond[topic.name] = beyond
            else:
                self._beyond.pop(topic.name, None)
            for partition_id in topic.partition_ids():
                self._state.store.ensure_partition(topic.name, partition_id)
        if PARTITION.on:
            self._record_served(changes.changed)
        self._state.topics.apply(changes)

    def _record_served(self, topics: Iterable[TopicConfig]) -> None:
        for topic in topics:
            before = self._state.topics.get(topic.name)
            count = len(topic.partition_ids())
            if before is None:
                PARTITION.record("served", topic=topic.name, partitions=count)
            elif count != len(before.partition_ids):
                PARTITION.record("widened", topic=topic.name, partitions=count, before=len(before.partition_ids))

    def restore(self, config: MasterConfig) -> None:
        """Continue with the Master's orders from before the start."""
        self.serve(self._reader.topics(config))
        self._flow(config)

    async def configure(self, config: MasterConfig) -> None:
        """Put a configuration on disk and in force.

        Raises:
            FormatError: it cannot be used; nothing was changed. OSError: it cannot be written; likewise.
        """
        topics = self._reader.topics(config)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._file.save, config)
        self.serve(topics)
        self._flow(config)
        logger.info("the Master's configuration %d is in force: %d topics", config.conf_id, len(topics))

    def _flow(self, config: MasterConfig) -> None:
        flow = self._state.flow
        rules = parse_rules(config.flow_rules)
        if rules != flow.rules:  # unchanged rules keep their measurements
            flow.rules = rules
            logger.info("the cluster's flow control has %d rules that limit reading", len(rules.data_limits))
        flow.priority_id = config.qry_priority_id

    def stop(self, *, reads: bool, writes: bool) -> None:
        """Apply the Master's stop of reads and of writes, or its end."""
        serving = self._state.serving
        if (reads, writes) != (serving.read_stopped, serving.write_stopped):
            logger.warning("the Master sets reads %s, writes %s", *("stopped" if s else "on" for s in (reads, writes)))
        serving.read_stopped, serving.write_stopped = reads, writes

    def record_registration(self, asked: EnableBrokerFunInfo | None) -> None:
        """Record a registration, and what the Master wants to be checked of clients."""
        self._state.access.visit_tokens.record_registration(asked, now_s=self._state.clock.now_s())

    def access(self, rules: BrokerAccess | None) -> None:
        """Put users, permissions and keys in force; None: the Master has nothing new."""
        if rules is None:
            if self._state.access.lacks_rules and not self._sent_no_rules:
                self._sent_no_rules = True
                logger.warning("%s", _NO_RULES)
            return
        self._state.access.rules = AccessRules(
            rules.version,
            rules.enforced,
            tuple(ClientKey(key.period, key.value) for key in rules.keys),
            {user.user: UserRules(user.epoch, read_permissions(user.permissions)) for user in rules.users},
        )

    @property
    def access_version(self) -> int:
        """The version of users and permissions that are in force."""
        return self._state.access.rules.version

    def record_outage(self) -> None:
        """Record that the Master did not respond, or refused."""
        self._state.access.visit_tokens.in_touch = False

    def tokens(self, text: str) -> None:
        """Replace the valid visit tokens; the Master has just responded."""
        self._state.access.visit_tokens.in_touch = True
        self._state.access.visit_tokens.learn(text)
