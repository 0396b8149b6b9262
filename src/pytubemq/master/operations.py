"""The operations of one Master beside the protocol: topics, groups, defaults and the views of them.

The invariant: a topic that `create_topic` has returned can be produced to and consumed at once. They need records, the
state in memory and a way to the Brokers, but no port of the Master.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq._version import __version__
from pytubemq.core.reset_target import parse_reset_target
from pytubemq.errors import Code, NotFoundError
from pytubemq.master.broker_inspector import BrokerInspector
from pytubemq.master.brokers.adoption import Adoption
from pytubemq.master.declaration.declared_metadata import DeclaredMetadata
from pytubemq.master.groups.group_resets import GroupResets, choose_partitions
from pytubemq.master.registry.audit import API_USER, author_of
from pytubemq.master.registry.broker_waits import BrokerWaits
from pytubemq.master.registry.registry import make_registry
from pytubemq.master.registry.topic_change import topic_change
from pytubemq.master.registry.topic_life import TopicLife
from pytubemq.master.reports.group_reports import GroupReports
from pytubemq.master.reports.layout import Layout
from pytubemq.master.reports.reports import Reports
from pytubemq.master.stories.story_report import StoryView, tell
from pytubemq.master.views import TopicsCreated
from pytubemq.model.limits import BROKER_READY_TIMEOUT_S, RESET_TIMEOUT_S
from pytubemq.model.missing_topic import topic_missing
from pytubemq.model.names import check_group
from pytubemq.security.permissions import Operation, ResourceKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytubemq.master.brokers.brokers import Brokers
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.master.components import Components
    from pytubemq.master.groups.groups import Groups
    from pytubemq.master.producers import Producers
    from pytubemq.master.registry.audit import Audit
    from pytubemq.master.registry.topic_change import TopicChange
    from pytubemq.master.settings import MasterSettings
    from pytubemq.master.stories.stories import Subject
    from pytubemq.master.views import (
        BrokerView,
        DefaultsView,
        GroupDetail,
        GroupReset,
        GroupView,
        ResetHistory,
        TopicDetail,
        TopicRemoval,
        TopicsAdopted,
        TopicView,
    )
    from pytubemq.net.client.pool import ConnectionPool
    from pytubemq.net.clock import Clock
    from pytubemq.security.secret import Secret


class MasterOperations:
    """The operations of a Master for administrators and the pages of HTTP."""

    def __init__(
        self, settings: MasterSettings, catalogue: Catalogue, parts: Components, pool: ConnectionPool, clock: Clock
    ) -> None:
        """`pool` has the connections to the Brokers."""
        self.settings = settings
        self.started_ms = clock.wall_ms()
        self._clock = clock
        self._catalogue = catalogue
        self._brokers, self._groups, self._producers = parts.brokers, parts.groups, parts.producers
        self._adoption = Adoption(catalogue, parts.brokers, clock)
        self._waits = BrokerWaits(catalogue, parts.brokers, settings, clock)
        self._topic_life = TopicLife(catalogue, parts.brokers, self._waits, clock)
        self.registry = make_registry(catalogue, parts.brokers, parts.access, self._waits)
        self.declared_metadata = DeclaredMetadata(
            catalogue,
            self._waits,
            clock,
            parts.access.sessions.brokers_by_user,
            lambda: [topic for run in parts.brokers.runs.values() for topic in run.unknown],
        )
        tokens = parts.access.tokens.of_master
        inspector = BrokerInspector(pool, timeout_s=settings.inspect_timeout_s, tokens=tokens)
        self._resets = GroupResets(pool, inspector, timeout_s=RESET_TIMEOUT_S, tokens=tokens)
        self._layout = Layout(catalogue, parts.brokers)
        self._reports = Reports(self._layout, parts.groups, parts.producers, inspector, started_ms=self.started_ms)
        self._group_reports = GroupReports(self._layout, parts.groups, inspector)

    # --- topics -------------------------------------------------------------------------------------------------

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        max_message_bytes: int | None = None,
        delete_policy: str | None = None,
        durability: str | None = None,
    ) -> TopicDetail:
        """Create a topic on every online Broker, each with `partitions` partitions, and wait until it is there.

        Raises:
            MessageError: not a topic name.
            BadRequestError: a number is out of its range.
            AlreadyExistsError: there is a topic of this name.
            UnavailableError: no Broker is online, one of this name is still being removed, or some Broker did not
                report the topic in time (it is created all the same, and ready as soon as they do).
        """
        change = topic_change(
            partitions=partitions,
            max_message_bytes=max_message_bytes,
            delete_policy=delete_policy,
            durability=durability,
        )
        await self._topic_life.create(name, change)
        return await self._reports.topic(name)

    async def create_topics(self, changes: Mapping[str, TopicChange], *, exist_ok: bool = False) -> TopicsCreated:
        """Create topics in one step, all or none, each as `create_topic` does, and wait until they are ready.

        With `exist_ok` those that are in use already are left as they are.

        Raises:
            BadRequestError: there are more than `MAX_TOPICS_PER_CALL`, or none.
            MessageError, AlreadyExistsError, UnavailableError: as `create_topic`.
        """
        created = await self._topic_life.create_all(changes, exist_ok=exist_ok)
        return TopicsCreated(created=created, existing=[name for name in changes if name not in set(created)])

    async def alter_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        max_message_bytes: int | None = None,
        delete_policy: str | None = None,
        durability: str | None = None,
    ) -> TopicDetail:
        """Change a topic on all its Brokers and wait until those online have taken it up; None = stays.

        The word `default` for a policy or a durability removes the topic's own setting.

        Raises:
            NotFoundError: there is no such topic.
            BadRequestError: a value is out of its range, or the topic would have fewer partitions.
            UnavailableError: some Broker did not report the change in time (it is made all the same).
        """
        change = topic_change(
            partitions=partitions,
            max_message_bytes=max_message_bytes,
            delete_policy=delete_policy,
            durability=durability,
        )
        await self._topic_life.alter(name, change)
        return await self._reports.topic(name)

    async def delete_topic(self, name: str) -> TopicRemoval:
        """Remove a topic with its messages from all Brokers; wait for those online, and return what is left to do.

        Raises:
            NotFoundError: there is no such topic.
            BadRequestError: it is the system's own.
        """
        return await self._topic_life.delete(name)

    async def topics(self) -> list[TopicView]:
        """Return all topics, by name."""
        return await self._reports.topics()

    async def topic(self, name: str) -> TopicDetail:
        """Return one topic with its partitions. Raises NotFoundError."""
        self._check_topic(name)
        return await self._reports.topic(name)

    # --- the rest of the cluster --------------------------------------------------------------------------------

    async def brokers(self) -> list[BrokerView]:
        """Return all Brokers, by id."""
        return self._reports.brokers()

    async def groups(self) -> list[GroupView]:
        """Return all groups with members or confirmed offsets, by name. Raises UntoldError: Brokers are away."""
        return await self._group_reports.groups()

    async def group(self, name: str, *, topic: str | None = None) -> GroupDetail:
        """Return a group with members, assignment and lag; with a topic only that topic's rows.

        Raises:
            NotFoundError: there is none and nothing keeps it out of a topic, or there is no such topic.
            UntoldError: that cannot be determined, as Brokers are away.
        """
        if topic is not None:
            check_group(name)
            self._check_topic(topic)
        return await self._group_reports.group(name, topic=topic)

    async def reset_group(
        self,
        name: str,
        topic: str,
        to: str,
        *,
        partitions: Sequence[str] = (),
        dry_run: bool = False,
        user: str = API_USER,
    ) -> GroupReset:
        """Move a group in a topic to an offset, described by `to`; members that are reading continue there.

        Args:
            name: the group; it need not exist yet, and will begin there.
            topic: the topic.
            to: the target, as `core.reset_target` parses it.
            partitions: some of its partitions, as `group_resets.choose_partitions` parses them; all if empty.
            dry_run: return what would happen, and change nothing.
            user: the author, for the history.

        Raises:
            MessageError: not a group's name.
            NotFoundError: there is no such topic.
            BadRequestError: not a target, or one that some partition does not have; nothing was moved.
            UnavailableError: a Broker of the topic does not respond.
        """
        check_group(name)
        target = parse_reset_target(to, now_ms=self._clock.wall_ms())
        self._check_topic(topic)
        wanted = choose_partitions(self._layout.partitions(topic), partitions)
        return await self._resets.move(
            self._layout.addresses({partition.broker_id for partition in wanted}),
            name,
            wanted,
            target,
            user=user,
            dry_run=dry_run,
        )

    async def group_resets(self, name: str, *, most: int = 100) -> ResetHistory:
        """Show who reset a group, when, from where to where; the newest first."""
        check_group(name)
        return await self._resets.history(self._layout.online(), name, most=most, away=self._layout.away())

    async def group_story(self, name: str, *, since_ms: int = 0, limit: int = 100) -> StoryView:
        """Return what happened to a group since this Master's start, and what people changed; the newest first."""
        check_group(name)
        return self._story(("group", name), since_ms, limit)

    async def broker_story(self, broker_id: int, *, since_ms: int = 0, limit: int = 100) -> StoryView:
        """Return the same of a Broker.

        Raises:
            NotFoundError: there is no such Broker, and nothing is known of one.
        """
        found = self._story(("broker", str(broker_id)), since_ms, limit)
        if not found.entries and broker_id not in self._catalogue.brokers:
            raise NotFoundError(
                f"there is no broker {broker_id}", hint="`pytubemq cluster info` names them", code=Code.NOT_FOUND
            )
        return found

    def _story(self, subject: Subject, since_ms: int, limit: int) -> StoryView:
        return tell(self._brokers.stories, self._catalogue.audit, subject, since_ms=since_ms, limit=limit)

    async def adopt_topics(self, *, discard: bool = False) -> TopicsAdopted:
        """Take over the topics that Brokers hold and this Master does not know; with `discard`, discard them.

        Raises:
            StorageError: the records cannot be written; nothing has changed.
        """
        return await self._adoption.adopt(discard=discard)

    async def defaults(self) -> DefaultsView:
        """Return the cluster's defaults for topics."""
        return self._reports.defaults()

    async def alter_defaults(
        self,
        *,
        max_message_bytes: int | None = None,
        delete_policy: str | None = None,
        durability: str | None = None,
    ) -> DefaultsView:
        """Change the cluster's defaults for topics; None = stays, the word `default` = as built in.

        Raises:
            BadRequestError: a value is out of its range.
        """
        change = topic_change(max_message_bytes=max_message_bytes, delete_policy=delete_policy, durability=durability)
        await self.registry.cluster.alter(change, by=self.change_by(None))
        return self._reports.defaults()

    async def await_served(self, broker_id: int, *, timeout_s: float = BROKER_READY_TIMEOUT_S) -> bool:
        """Wait until a Broker is online and has reported all its topics; return False if it has not in time."""
        return await self._waits.until_served(broker_id, timeout_s=timeout_s)

    async def enroll_broker(self, name: str) -> Secret:
        """Return a new secret of a user that may register as a Broker; the user is created if it is not there.

        Raises:
            ConfigError: this Master has no key for secrets.
        """
        users, by = self.registry.users, self.change_by("server")
        secret = await (users.rotate if name in self._catalogue.users else users.create)(name, by=by)
        await users.grant(name, Operation.BROKER, ResourceKind.CLUSTER, "*", by=by)
        return secret

    def change_by(self, user: str | None) -> Audit:
        """Return the author and time of a change that is made now."""
        return author_of(user, self._clock.wall_ms())

    @property
    def version(self) -> str:
        """The version of this software."""
        return __version__

    @property
    def catalogue(self) -> Catalogue:
        """The records, for reading; `registry` changes them."""
        return self._catalogue

    @property
    def group_room(self) -> Groups:
        """The consumer groups that have members now."""
        return self._groups

    @property
    def producer_room(self) -> Producers:
        """The registered producers."""
        return self._producers

    @property
    def broker_room(self) -> Brokers:
        """The registered Brokers."""
        return self._brokers

    # --- inside -------------------------------------------------------------------------------------------------

    def _check_topic(self, name: str) -> None:
        if name not in self._catalogue.topics:
            raise topic_missing(name, known=self._catalogue.topics, code=Code.NOT_FOUND, creatable=False)
