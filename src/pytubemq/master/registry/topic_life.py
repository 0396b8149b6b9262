"""A topic from its creation to its removal, each as one step for the caller: records, and the wait for the Brokers.

The invariants: a topic that `create` has returned can be produced to and consumed at once, at the Brokers that were not
late; a change that `alter` has returned is in force on every Broker that is online; a topic that `delete` has returned
as removed is on no Broker any more. A wait may end while work is under way; that goes on automatically, also after a
restart of the Master, since all of it is in the records.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from pytubemq.errors import AlreadyExistsError, BadRequestError, Code, TubeError, UnavailableError
from pytubemq.master.catalogue.topic_deletion import deleted, free_record, is_deleted
from pytubemq.master.registry.audit import author_of
from pytubemq.master.registry.broker_waits import IN_USE, listed
from pytubemq.master.views import PendingRemoval, TopicRemoval
from pytubemq.model.limits import MAX_PARTITIONS_PER_TOPIC, MAX_TOPICS_PER_CALL
from pytubemq.model.missing_topic import topic_missing
from pytubemq.model.names import check_topic
from pytubemq.model.records import DeployRecord, Stamp, TopicProps, TopicRecord, TopicStatus
from pytubemq.model.topic import HISTORY_TOPIC, is_layout

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pytubemq.master.brokers.brokers import Brokers
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.master.registry.broker_waits import BrokerWaits
    from pytubemq.master.registry.topic_change import TopicChange
    from pytubemq.model.records import Record
    from pytubemq.net.clock import Clock

logger = logging.getLogger(__name__)


class TopicLife:
    """Creation, change and removal of topics."""

    def __init__(self, catalogue: Catalogue, brokers: Brokers, waits: BrokerWaits, clock: Clock) -> None:
        self._catalogue = catalogue
        self._brokers = brokers
        self._waits = waits
        self._clock = clock

    # --- creation -----------------------------------------------------------------------------------------------

    async def create(self, name: str, change: TopicChange) -> None:
        """Put a topic on every Broker in use and wait until those online have it.

        A Broker that is late is named as not ready where another one has the topic, and nobody waits for it again
        before it has taken a change.

        A record that is left of a topic without Brokers is used as it is: its access control still applies, and so does
        its size limit unless another is given.

        Raises:
            MessageError: not a topic name.
            AlreadyExistsError: there is a topic of this name; the hint says what to do with it.
            UnavailableError: no Broker is online, a topic of this name is still being removed, or no Broker
                reported the topic in time (it is created all the same).
        """
        await self.create_all({name: change})

    async def create_all(self, changes: Mapping[str, TopicChange], *, exist_ok: bool = False) -> list[str]:
        """Create topics in one step, all of them or none, and return the names of those that were not there.

        Args:
            changes: the topics, each with what `create` takes.
            exist_ok: leave out those that are in use already.

        Raises:
            BadRequestError: there are more than `MAX_TOPICS_PER_CALL`, or none.
            MessageError, AlreadyExistsError, UnavailableError: as `create`; all are created in the last case only.
        """
        if not 1 <= len(changes) <= MAX_TOPICS_PER_CALL:
            raise BadRequestError(
                f"{len(changes)} topics in one call",
                hint=f"give 1 to {MAX_TOPICS_PER_CALL}, and the others in further calls",
                code=Code.BAD_REQUEST,
            )
        for name in changes:
            check_topic(name)
        if not all(self._catalogue.deployed(name) for name in changes):  # else nothing could be created anyway
            await self._waits.until_first_broker()
        async with self._catalogue.lock:
            new = {name: change for name, change in changes.items() if not (exist_ok and self._in_use(name))}
            there = [name for name in new if self._catalogue.deployed(name)]
            if there:
                raise self._there_already(there[0], self._catalogue.deployed(there[0]), among=len(changes))
            if not new:
                return []
            # Brokers that are away now get it as well, when they come back.
            in_use = [b for b, record in self._catalogue.brokers.items() if record.manage_status in IN_USE]
            on = [broker_id for broker_id in in_use if self._brokers.topics.can_take_topics(broker_id)]
            online = [broker_id for broker_id in on if self._waits.is_online(broker_id)]
            if not online:  # unproven Brokers are better than no Brokers
                online = [broker_id for broker_id in in_use if self._waits.is_online(broker_id)]
                on = [*on, *online]
            if not online:
                raise self._nowhere(new)
            online = self._settled(new, online)
            records = self._new_records(new, on)
            for record in records:
                if isinstance(record, DeployRecord):
                    self._check_layout(record)
            await self._catalogue.apply(records)
        logger.info("%s created on brokers %s", _topics(new), sorted(on))
        late = set(new)

        def left() -> list[int]:
            waiting: set[int] = set()
            for name in [*late]:
                behind = self._waits.late(name, online)
                waiting.update(behind)
                if not behind:
                    late.discard(name)
            return sorted(waiting)

        await self._waits.until_ready(_topics(new), "created", online, left, some=True)
        return list(new)

    def _new_records(self, new: Mapping[str, TopicChange], on: Collection[int]) -> list[Record]:
        stamp = self._stamp()
        topics = [self._record(name, change.max_message_bytes, stamp) for name, change in new.items()]
        return [
            *topics,
            *(
                DeployRecord(name, broker_id, props=TopicProps(**change.props), stamp=stamp)
                for name, change in new.items()
                for broker_id in on
            ),
        ]

    def _settled(self, new: Collection[str], online: Collection[int]) -> list[int]:
        """Return those of these Brokers that hold no topic unknown to this Master, since only they get orders.

        Raises:
            UnavailableError: there is none, or a Broker holds a topic of one of these names.
        """
        unknown = {broker_id: run.unknown for broker_id, run in self._brokers.runs.items() if run.unknown}
        holding = [broker_id for broker_id, topics in unknown.items() if not topics.keys().isdisjoint(new)]
        settled = [broker_id for broker_id in online if broker_id not in unknown]
        if unsettled := holding or ([] if settled else online):
            raise UnavailableError(
                f"{_topics(new)} not created: broker {listed(unsettled)} holds topics that this Master does not know",
                hint="take them over with `pytubemq cluster adopt`; `pytubemq cluster health` names them",
                code=Code.SERVICE_UNAVAILABLE,
            )
        return settled

    def _in_use(self, name: str) -> bool:
        """True if the topic exists as `create` would leave it."""
        return any(place.topic_status is TopicStatus.NORMAL for place in self._catalogue.deployed(name).values())

    def _nowhere(self, names: Collection[str]) -> UnavailableError:
        """Return the error of a creation while no Broker can take a topic; it names the Brokers and their states."""
        idle = {
            broker_id: record.manage_status.text
            for broker_id, record in sorted(self._catalogue.brokers.items())
            if record.manage_status not in IN_USE
        }
        away = [broker_id for broker_id in self._catalogue.brokers if broker_id not in idle]
        if away:
            text, hint = f"; broker {listed(away)} is away", "start it; `pytubemq cluster health` says where it was"
        elif idle:
            states = ", ".join(f"broker {broker_id} is {status}" for broker_id, status in idle.items())
            text, hint = f"; {states}", "put one online with admin_online_broker_configure of /webapi.htm"
        else:
            text, hint = "", "start one: pytubemq server run broker"
        return UnavailableError(
            f"{_topics(names)} not created: no Broker is online{text}", hint=hint, code=Code.SERVICE_UNAVAILABLE
        )

    def _check_layout(self, place: DeployRecord) -> None:
        below = place.props.over(self._catalogue.broker_props(place.broker_id))
        partitions, stores = below.num_partitions or 1, below.num_topic_stores or 1
        if not is_layout(partitions, stores):
            raise BadRequestError(
                f"topic {place.topic} would have {partitions * stores} partitions on broker {place.broker_id}, "
                f"in {stores} stores",
                hint=f"a Broker takes {MAX_PARTITIONS_PER_TOPIC} of a topic",
                code=Code.BAD_REQUEST,
            )

    # --- change -------------------------------------------------------------------------------------------------

    async def alter(self, name: str, change: TopicChange) -> None:
        """Change a topic wherever it is in use, and wait until the Brokers online have taken it up.

        No error where nothing changes.

        Raises:
            NotFoundError: there is no such topic.
            BadRequestError: it is the system's own, is deleted, or would have fewer partitions on a Broker.
            UnavailableError: some Broker did not report the change in time (it is made all the same).
        """
        if name == HISTORY_TOPIC:
            raise BadRequestError(f"{name} is the system's own topic", hint="leave it as it is", code=Code.BAD_REQUEST)
        async with self._catalogue.lock:
            if (record := self._catalogue.topics.get(name)) is None:
                raise topic_missing(name, known=self._catalogue.topics, code=Code.NOT_FOUND, creatable=False)
            places = [
                place for place in self._catalogue.deployed(name).values() if place.topic_status is TopicStatus.NORMAL
            ]
            if not places:
                raise BadRequestError(
                    f"topic {name} is in use on no Broker",
                    hint="bring it back with admin_redo_deleted_topic_deploy_info, or create it again",
                    code=Code.BAD_REQUEST,
                )
            puts: list[Record] = [self._altered(place, change) for place in places]
            puts.append(self._record(name, change.max_message_bytes, self._stamp()))
            before: list[Record] = [*places, record]
            # A record is not written if only its stamp would change.
            changed = [new for new, old in zip(puts, before, strict=True) if replace(new, stamp=old.stamp) != old]
            await self._catalogue.apply(changed)
            on = [place.broker_id for place in places if self._waits.is_online(place.broker_id)]
        logger.info("topic %s altered on brokers %s: %s", name, sorted(on), change)
        await self._waits.until_ready(
            f"topic {name} is", "altered", on, lambda: sorted({*self._waits.late(name, on), *self._waits.behind(on)})
        )

    def _altered(self, place: DeployRecord, change: TopicChange) -> DeployRecord:
        have, wanted = self._catalogue.config(place).partitions, change.props.get("num_partitions")
        self._check_layout(replace(place, props=replace(place.props, **change.props)))
        if wanted is not None and wanted < have:
            raise BadRequestError(
                f"topic {place.topic} has {have} partitions on broker {place.broker_id}, which cannot become {wanted}",
                hint=f"partitions can only be added: give {have} or more",
                code=Code.BAD_REQUEST,
            )
        now = self._stamp()
        return replace(
            place,
            props=replace(place.props, **change.props),
            stamp=replace(place.stamp, modify_user=now.modify_user, modify_ms=now.modify_ms),
        )

    def _record(self, name: str, max_message_bytes: int | None, stamp: Stamp) -> TopicRecord:
        left = self._catalogue.topics.get(name)
        if left is None:
            return TopicRecord(
                name, max_message_bytes=max_message_bytes or self._catalogue.cluster.max_message_bytes, stamp=stamp
            )
        renewed = replace(left.stamp, modify_user=stamp.modify_user, modify_ms=stamp.modify_ms)
        return replace(left, max_message_bytes=max_message_bytes or left.max_message_bytes, stamp=renewed)

    def _there_already(self, name: str, places: Mapping[int, DeployRecord], *, among: int) -> TubeError:
        leaving = [b for b, deploy in places.items() if deploy.topic_status.removed]
        deleted = [b for b, deploy in places.items() if deploy.topic_status is TopicStatus.SOFT_DELETED]
        if len(leaving) == len(places):
            why = "; ".join(f"{one.broker}: {one.why}" for one in self._pending(name))
            return UnavailableError(
                f"topic {name} is being removed, and cannot be created before that is done (broker {why})",
                hint="try again when the Brokers have removed it",
                code=Code.SERVICE_UNAVAILABLE,
            )
        if len(leaving) + len(deleted) == len(places):
            text, hint = (
                f"topic {name} is deleted softly on broker {listed(deleted)}: its data is still there",
                f"bring it back with admin_redo_deleted_topic_deploy_info, or remove it: pytubemq topic delete {name}",
            )
        elif away := [broker_id for broker_id in places if not self._waits.is_online(broker_id)]:
            text, hint = (
                f"topic {name} exists already, and its broker {listed(away)} is away",
                "start that Broker (`pytubemq cluster health` says more), or choose another name",
            )
        else:
            text, hint = (
                f"topic {name} exists already",
                "choose another name, or use the topic as it is (--exist-ok makes that no error of `topic create`)",
            )
        if among > 1:
            text += f"; none of the {among} topics was created"
        return AlreadyExistsError(text, hint=hint, code=Code.BAD_REQUEST)

    # --- removal ------------------------------------------------------------------------------------------------

    async def delete(self, name: str) -> TopicRemoval:
        """Take a topic off all its Brokers, with its messages, and wait for those online to report that it is gone.

        Its record goes with its last place, however much later and in whichever run of the Master that is; one that
        controls access stays, as rules must not be lost unseen.

        Raises:
            NotFoundError: there is no such topic.
            BadRequestError: it is the system's own.
        """
        if name == HISTORY_TOPIC:
            raise BadRequestError(f"{name} is the system's own topic", hint="leave it in place", code=Code.BAD_REQUEST)
        async with self._catalogue.lock:
            if name not in self._catalogue.topics:
                raise topic_missing(name, known=self._catalogue.topics, code=Code.NOT_FOUND, creatable=False)
            places = self._catalogue.deployed(name)
            record = None if places else free_record(self._catalogue, name)
            now_ms = self._clock.wall_ms()
            await self._catalogue.apply(
                [deleted(place, now_ms) for place in places.values() if not is_deleted(place)],
                [] if record is None else [record],
            )
        logger.info("topic %s is to be removed from brokers %s", name, sorted(self._catalogue.deployed(name)))
        await self._waits.until_removed(name)
        left = self._catalogue.deployed(name)
        return TopicRemoval(
            name=name,
            removed=not left,
            pending=self._pending(name),
            record_kept=name in self._catalogue.topics and not left,
        )

    def _pending(self, name: str) -> list[PendingRemoval]:
        return [
            PendingRemoval(
                broker=broker_id,
                why="has not reported its removal yet"
                if self._waits.is_online(broker_id)
                else "away: removes it on return",
            )
            for broker_id in sorted(self._catalogue.deployed(name))
        ]

    # --- inside -------------------------------------------------------------------------------------------------

    def _stamp(self) -> Stamp:
        now_ms = self._clock.wall_ms()
        return author_of(None, now_ms).made()


def _topics(names: Collection[str]) -> str:
    """Return the topics as the subject of a sentence, with its verb."""
    return f"topic {next(iter(names))} is" if len(names) == 1 else f"{len(names)} topics are"
