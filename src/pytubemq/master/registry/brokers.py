"""The records of Brokers, and the changes that an operator may make to them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

from pytubemq.errors import BadRequestError, Code, StorageError
from pytubemq.master.brokers.absent_brokers import is_auto_registered
from pytubemq.master.catalogue.topic_deletion import with_records
from pytubemq.master.registry.audit import Audit
from pytubemq.master.registry.change import Step, change
from pytubemq.master.registry.outcome import (
    BAD_STATE,
    BAD_VALUE,
    DEPENDENT_LEFT,
    NEED_MISSING,
    NOT_FOUND,
    STORE_FAILED,
    UNCHANGED,
    Outcome,
)
from pytubemq.master.registry.topics import SYSTEM_USER, new_topic
from pytubemq.model.ids import Address
from pytubemq.model.records import BrokerRecord, DeployRecord, ManageStatus, TopicProps
from pytubemq.model.topic import HISTORY_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytubemq.master.brokers.brokers import Brokers
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.model.records import Record

logger = logging.getLogger(__name__)

HISTORY_PARTITIONS = 10
"""The partitions of the original's own topic, which every Broker that an operator adds gets."""
MAX_BROKER_ID = 2**31 - 1
_IN_USE = (ManageStatus.ONLINE, ManageStatus.ONLY_READ, ManageStatus.ONLY_WRITE)


@dataclass(frozen=True, slots=True)
class BrokerSpec:
    """A Broker to be added, or the changes to one; None is the cluster's default, or no change.

    An id of None or 0 is made of the address.
    """

    broker_id: int | None
    host: str = ""
    port: int | None = None
    tls_port: int | None = None
    web_port: int | None = None
    region_id: int | None = None
    group_id: int | None = None
    manage_status: ManageStatus | None = None
    props: TopicProps = field(default_factory=TopicProps)


class BrokerRegistry:
    """Rules for the records of Brokers. An outcome's key is (id, host)."""

    def __init__(self, catalogue: Catalogue, rooms: Brokers) -> None:
        self._catalogue = catalogue
        self._rooms = rooms

    async def add(self, specs: Sequence[tuple[BrokerSpec, Audit]]) -> list[Outcome]:
        """Add Brokers, with the original's own topic on each, as drafts unless the request sets another status.

        Several Brokers may run at one host, on ports of their own. One whose servers would share a port is left out
        (407). A Broker that entered on its own may be entered once more, by an operator who knows it: what it carries
        stays, and what is said counts. While it runs that is only possible where it is.

        Raises:
            BadRequestError: one has the id or the address of another, or no id can be made of its address; none is
                entered.
        """
        found: list[Outcome] = []
        async with self._catalogue.lock:
            puts: list[Record] = []
            made: dict[int, BrokerRecord] = {}
            for spec, by in specs:
                record = self._new(spec, by)
                own = self._own(record.broker_id)
                if own is not None:
                    record = self._over(own, record, said=spec.manage_status)
                if problem := _clash(record) or _back_to_draft(own, record):
                    found.append(problem)
                    continue
                others = [other for other in self._catalogue.brokers.values() if other is not own]
                self._check_alone(record, [*others, *made.values()])
                made[record.broker_id] = record
                puts.append(record)
                if (HISTORY_TOPIC, record.broker_id) not in self._catalogue.deploys:
                    puts.append(history_place(record, by))
                found.append(Outcome(_key(record)))
            if made and HISTORY_TOPIC not in self._catalogue.topics:
                puts.append(new_topic(HISTORY_TOPIC, self._catalogue, Audit(SYSTEM_USER, specs[0][1].ms)))
            await self._catalogue.apply(puts)
        return found

    async def update(self, specs: Iterable[tuple[BrokerSpec, Audit]]) -> list[Outcome]:
        """Apply the given changes; the host stays."""
        return await self._change(specs, self._changed)

    async def set_status(self, broker_ids: Iterable[int], status: ManageStatus, *, by: Audit) -> list[Outcome]:
        """Put Brokers online or offline, or in between."""
        return await self.update([(BrokerSpec(broker_id, manage_status=status), by) for broker_id in broker_ids])

    async def set_read_or_write(
        self, broker_ids: Iterable[int], *, publish: bool | None, subscribe: bool | None, by: Audit
    ) -> list[Outcome]:
        """Switch writing and reading individually; no error where nothing changes."""

        def switch(spec: BrokerSpec, record: BrokerRecord) -> BrokerRecord | Outcome:
            if record.manage_status is ManageStatus.DRAFT:
                text = f"broker {record.broker_id} is a draft: put it online first"
                return Outcome(_key(record), NEED_MISSING, text)
            wanted = _switched(record, publish=publish, subscribe=subscribe)
            return Outcome(_key(record)) if wanted == record else wanted

        return await self._change([(BrokerSpec(broker_id), by) for broker_id in broker_ids], switch)

    def reload(self, broker_ids: Iterable[int]) -> list[Outcome]:
        """Send Brokers their configuration once more."""
        found = []
        for broker_id in broker_ids:
            record = self._catalogue.brokers.get(broker_id)
            if record is None:
                found.append(_unknown(broker_id))
            elif record.manage_status not in _IN_USE:
                text = f"broker {broker_id} is {record.manage_status.text}: put it online first"
                found.append(Outcome((broker_id, ""), BAD_STATE, text))
            else:
                self._rooms.reload(broker_id)
                found.append(Outcome((broker_id, record.address.host)))
        return found

    def release_forbidden(self, broker_ids: Iterable[int]) -> None:
        """Lift the restrictions that Brokers got for the faults they reported; their status stays."""
        for broker_id in broker_ids:
            self._rooms.release_forbidden(broker_id)

    async def delete(self, broker_ids: Iterable[int], *, with_topics: bool) -> list[Outcome]:
        """Delete records; `with_topics` deletes the topics' deployments there too, and leaves the Broker's files.

        An unknown Broker counts as deleted.
        """
        return [await self._delete(broker_id, with_topics=with_topics) for broker_id in broker_ids]

    # --- inside -------------------------------------------------------------------------------------------------

    def _new(self, spec: BrokerSpec, by: Audit) -> BrokerRecord:
        cluster = self._catalogue.cluster
        return BrokerRecord(
            broker_id=spec.broker_id or _id_of(spec.host),
            address=Address(spec.host, spec.port or cluster.broker_port),
            tls_port=spec.tls_port or cluster.broker_tls_port,
            web_port=spec.web_port or cluster.broker_web_port,
            region_id=spec.region_id or 0,
            group_id=spec.group_id or 0,
            manage_status=spec.manage_status or ManageStatus.DRAFT,
            props=spec.props.over(self._catalogue.broker_props(0)),
            stamp=by.made(),
        )

    def _own(self, broker_id: int) -> BrokerRecord | None:
        """Return the record of a Broker that entered on its own, if there is one of that id."""
        record = self._catalogue.brokers.get(broker_id)
        return record if record is not None and is_auto_registered(record) else None

    def _over(self, own: BrokerRecord, record: BrokerRecord, *, said: ManageStatus | None) -> BrokerRecord:
        """Return an operator's record of an auto-registered Broker; the status stays unless the operator gives one.

        Raises:
            BadRequestError: it runs elsewhere, and could not come back to such a record.
        """
        run = self._rooms.runs.get(own.broker_id)
        if run is not None and (own.address, own.tls_port) != (record.address, record.tls_port):
            raise BadRequestError(
                f"broker {own.broker_id} runs at {own.address} (TLS port {own.tls_port}), and the record would say "
                f"{record.address} ({record.tls_port})",
                hint="stop it first, or start it there, or give one of them another id",
                code=Code.BAD_REQUEST,
            )
        return replace(record, manage_status=said or own.manage_status)

    def _check_alone(self, record: BrokerRecord, others: Iterable[BrokerRecord]) -> None:
        for other in others:
            if other.broker_id == record.broker_id:
                same = f"the id {record.broker_id}"
            elif other.address == record.address:
                same = f"the address {record.address}"
            else:
                continue
            raise BadRequestError(
                f"{same} belongs to broker {other.broker_id} at {other.address} already",
                hint="give another one, or change that Broker",
                code=Code.BAD_REQUEST,
            )

    async def _change(
        self,
        specs: Iterable[tuple[BrokerSpec, Audit]],
        turn: Callable[[BrokerSpec, BrokerRecord], BrokerRecord | Outcome],
    ) -> list[Outcome]:
        def decide(asked: tuple[BrokerSpec, Audit], record: BrokerRecord | None) -> Step[BrokerRecord]:
            spec, by = asked
            if record is None:
                return Step(_unknown(spec.broker_id or 0))
            wanted = turn(spec, record)
            if isinstance(wanted, Outcome):
                return Step(wanted)
            return Step(Outcome(_key(record)), replace(wanted, stamp=by.changed(record.stamp)))

        return await change(
            self._catalogue,
            self._catalogue.brokers,
            specs,
            key=lambda asked: asked[0].broker_id or 0,
            decide=decide,
        )

    def _changed(self, spec: BrokerSpec, record: BrokerRecord) -> BrokerRecord | Outcome:
        wanted = _changed(spec, record)
        if isinstance(wanted, Outcome):
            return wanted
        if wanted == record:
            return Outcome(_key(record), UNCHANGED, f"broker {record.broker_id} has these values already")
        if _ports(wanted) != _ports(record) and (clash := _clash(wanted)):
            return clash
        for other in self._catalogue.brokers.values():
            if other.broker_id != record.broker_id and other.address == wanted.address:
                text = f"{wanted.address} is the address of broker {other.broker_id}: choose another port"
                return Outcome(_key(record), BAD_VALUE, text)
        return wanted

    async def _delete(self, broker_id: int, *, with_topics: bool) -> Outcome:
        async with self._catalogue.lock:
            record = self._catalogue.brokers.get(broker_id)
            if record is None:
                return Outcome((broker_id, ""))
            key = _key(record)
            if record.manage_status in _IN_USE:
                text = f"broker {broker_id} is {record.manage_status.text}: put it offline first"
                return Outcome(key, BAD_STATE, text)
            run = self._rooms.runs.get(broker_id)
            if run is not None and run.online and not run.in_sync:
                text = f"broker {broker_id} has not applied its last change yet: wait for it, or stop it"
                return Outcome(key, BAD_STATE, text)
            places = self._catalogue.deployed_on(broker_id)
            if places and not with_topics:
                text = f"broker {broker_id} has {len(places)} topics: remove them, or give isReservedData=true"
                return Outcome(key, DEPENDENT_LEFT, text)
            for place in places:
                props = self._catalogue.props(place.topic, broker_id)
                if props.accept_publish or props.accept_subscribe:
                    text = f"topic {place.topic} is in use there: set its acceptPublish and acceptSubscribe to false"
                    return Outcome(key, BAD_STATE, text)
            try:
                await self._catalogue.apply(deletes=[*with_records(self._catalogue, places), record])
            except StorageError as error:
                logger.error("broker %d was not deleted: %s", broker_id, error)
                return Outcome(key, STORE_FAILED, "the Master's store failed: its log says more")
            self._rooms.retire(broker_id)
        return Outcome(key)


def history_place(record: BrokerRecord, by: Audit) -> DeployRecord:
    """Return the deployment of the original's own topic on a Broker that an operator adds."""
    props = TopicProps(num_topic_stores=1, num_partitions=HISTORY_PARTITIONS).over(record.props)
    return DeployRecord(HISTORY_TOPIC, record.broker_id, props=props, stamp=Audit(SYSTEM_USER, by.ms).made())


def _key(record: BrokerRecord) -> tuple[int, str]:
    return (record.broker_id, record.address.host)


def _ports(record: BrokerRecord) -> tuple[int, int, int]:
    return record.address.port, record.tls_port, record.web_port


def _clash(record: BrokerRecord) -> Outcome | None:
    """Return the refusal of a Broker whose pages have the port of another of its servers; None if they do not."""
    if record.web_port not in (record.address.port, record.tls_port):
        return None
    text = f"brokerWebPort {record.web_port} is also brokerPort or brokerTLSPort: give each server its own port"
    return Outcome(_key(record), BAD_VALUE, text)


def _back_to_draft(before: BrokerRecord | None, record: BrokerRecord) -> Outcome | None:
    """Return the refusal of a change that would turn a Broker back into a draft; None if it would not."""
    draft = ManageStatus.DRAFT
    if before is None or record.manage_status is not draft or before.manage_status is draft:
        return None
    text = f"broker {record.broker_id} is {before.manage_status.text}: it cannot become a draft again"
    return Outcome(_key(record), BAD_VALUE, text)


def _unknown(broker_id: int) -> Outcome:
    return Outcome((broker_id, ""), NOT_FOUND, f"broker {broker_id} is not known: add it first")


def _id_of(host: str) -> int:
    """Return the id that the original makes of an IPv4 address: its absolute value as a signed number."""
    number = int(IPv4Address(host))
    number = 2**32 - number if number >= 2**31 else number
    if not 0 < number <= MAX_BROKER_ID:
        raise BadRequestError(f"no id can be made of {host}", hint="give a brokerId", code=Code.BAD_REQUEST)
    return number


def _changed(spec: BrokerSpec, record: BrokerRecord) -> BrokerRecord | Outcome:
    """Return the record with the given changes; an outcome where the status may not follow the current one."""
    key = _key(record)
    status = record.manage_status if spec.manage_status is None else spec.manage_status
    if record.manage_status is ManageStatus.DRAFT and status not in (ManageStatus.DRAFT, ManageStatus.ONLINE):
        text = f"broker {record.broker_id} is a draft: it can only be put online, not {status.text}"
        return Outcome(key, BAD_VALUE, text)
    wanted = replace(
        record,
        address=record.address if spec.port is None else Address(record.address.host, spec.port),
        tls_port=record.tls_port if spec.tls_port is None else spec.tls_port,
        web_port=record.web_port if spec.web_port is None else spec.web_port,
        region_id=record.region_id if spec.region_id is None else spec.region_id,
        group_id=record.group_id if spec.group_id is None else spec.group_id,
        manage_status=status,
        props=spec.props.over(record.props),
    )
    return _back_to_draft(record, wanted) or wanted


def _switched(record: BrokerRecord, *, publish: bool | None, subscribe: bool | None) -> BrokerRecord:
    """Return the record with the status that allows just this; a None stays as it is."""
    pair = (
        record.manage_status.publishes if publish is None else publish,
        record.manage_status.subscribes if subscribe is None else subscribe,
    )
    status = {
        (True, True): ManageStatus.ONLINE,
        (True, False): ManageStatus.ONLY_WRITE,
        (False, True): ManageStatus.ONLY_READ,
        (False, False): ManageStatus.OFFLINE,
    }[pair]
    return replace(record, manage_status=status)
