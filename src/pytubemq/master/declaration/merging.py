"""The records that a declaration asks for.

The invariants: what a declaration does not name stays, unless it is pruned; in a section that it does not have nothing
is pruned. Partitions only grow, no Broker is removed, and no topic is removed from some of its Brokers only: these
need steps of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from pytubemq.errors import FormatError, MessageError
from pytubemq.master.declaration.keys import BROKER, CLUSTER, CONSUMPTION, GROUP, SETTINGS, TOPIC, given, wrong
from pytubemq.model.ids import Address
from pytubemq.model.names import check_broker_host, check_broker_id, check_group, check_topic
from pytubemq.model.records import (
    BUILT_IN_PROPS,
    BrokerRecord,
    ClusterRecord,
    ConsumeRecord,
    DeployRecord,
    GroupRecord,
    ManageStatus,
    PermissionRecord,
    TopicProps,
    TopicRecord,
    UserRecord,
)
from pytubemq.model.topic import HISTORY_TOPIC
from pytubemq.security.permissions import parse_permission

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pytubemq.master.declaration.declaration import (
        Declaration,
        Declared,
        DeclaredBroker,
        DeclaredCluster,
        DeclaredGroup,
        DeclaredTopic,
        DeclaredUser,
    )
    from pytubemq.master.declaration.records import Records, Words

_ONLY_GROW: Final = ("num_partitions", "num_topic_stores")
_IN_USE: Final = (ManageStatus.ONLINE, ManageStatus.ONLY_READ, ManageStatus.ONLY_WRITE)
_MAX_USER_NAME_CHARS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOptions:
    """The rules by which a declaration is merged.

    `prune` removes entries that a section does not name, and resets the keys that an entry does not; `only_new` creates
    entries that do not exist and changes no other.
    """

    prune: bool = False
    only_new: bool = False


class Merge:
    """Merges a declaration into a copy of the records: `records` is the result, `notes` says what was left alone."""

    def __init__(self, records: Records, declaration: Declaration, options: MergeOptions) -> None:
        self._wanted = declaration
        self._options = options
        self.records = records.copy()
        self.removed_topics: list[str] = []
        """The topics that are removed with their messages."""
        self._on: dict[str, list[int]] = {}
        """The Brokers on which each topic was in use before."""
        for topic, broker_id in records.places:
            self._on.setdefault(topic, []).append(broker_id)
        self.notes: list[str] = []

    def run(self) -> None:
        """Merge all sections. Raises BadRequestError: something is not allowed; it names the key."""
        wanted = self._wanted
        if wanted.cluster is not UNSET:
            self._cluster(wanted.cluster)
        for name, broker in _entries(wanted.brokers):
            self._broker(name, broker)
        for name, topic in _entries(wanted.topics):
            self._topic(name, topic)
        for name, group in _entries(wanted.groups):
            self._group(name, group)
        for name, user in _entries(wanted.users):
            self._user(name, user)
        if self._options.prune:
            self._prune()

    # --- cluster and Brokers ------------------------------------------------------------------------------------

    def _cluster(self, wanted: DeclaredCluster) -> None:
        now = self.records.cluster
        if self._options.only_new and now.stamp.serial_id >= 0:
            return
        props = now.props.over(BUILT_IN_PROPS)
        values = given(wanted, CLUSTER, "cluster")
        base = ClusterRecord(stamp=now.stamp) if self._options.prune else now
        set_props = {
            # The lowest layer has a value for all but the durability.
            name: getattr(BUILT_IN_PROPS, name) if value is None else value
            for name, value in given(wanted, SETTINGS, "cluster").items()
        }
        made = replace(base, props=self._props(props, set_props, below=BUILT_IN_PROPS), **values)
        if made.broker_web_port in (made.broker_port, made.broker_tls_port):
            raise wrong("cluster.broker_web_port", "is also broker_port or broker_tls_port", "give each its own")
        self.records.cluster = made

    def _broker(self, name: str, wanted: DeclaredBroker) -> None:
        path = f"brokers.{name}"
        broker_id = _broker_id(name, path)
        known = self.records.brokers.get(broker_id)
        if known is not None and self._options.only_new:
            return
        address = _address(wanted, known, path)
        values = given(wanted, BROKER, path)
        if known is None:
            base = BrokerRecord(
                broker_id,
                address,
                tls_port=self.records.cluster.broker_tls_port,
                web_port=self.records.cluster.broker_web_port,
            )
        else:
            base = replace(known, region_id=0, group_id=0) if self._options.prune else known
        props = self._props(base.props, given(wanted, SETTINGS, path))
        made = replace(base, address=address, props=props, **values)
        _check_status(known, made, path)
        if known is None or (known.address, known.tls_port, known.web_port) != (address, made.tls_port, made.web_port):
            self._check_ports(made, path)
        self.records.brokers[broker_id] = made

    def _check_ports(self, record: BrokerRecord, path: str) -> None:
        if record.web_port in (record.address.port, record.tls_port):
            raise wrong(f"{path}.web_port", "is also its port for clients, or its TLS port", "give each its own")
        for other in self.records.brokers.values():
            if other.broker_id != record.broker_id and other.address == record.address:
                raise wrong(
                    f"{path}.address", f"{record.address} belongs to broker {other.broker_id}", "give another one"
                )

    # --- topics -------------------------------------------------------------------------------------------------

    def _topic(self, name: str, wanted: DeclaredTopic) -> None:
        path = f"topics.{name}"
        known = self.records.topics.get(name)
        if name == HISTORY_TOPIC:
            raise wrong(path, "is the system's own topic", "leave it out")
        if known is not None and self._options.only_new:
            return
        values = given(wanted, TOPIC, path)
        if known is None:
            _check_name(check_topic, name, "topics")
            base = TopicRecord(name, max_message_bytes=self.records.cluster.max_message_bytes)
        elif self._options.prune:
            base = TopicRecord(
                name,
                topic_name_id=known.topic_name_id,
                max_message_bytes=self.records.cluster.max_message_bytes,
                stamp=known.stamp,
            )
        else:
            base = known
        self.records.topics[name] = replace(base, **values)
        self._places(name, wanted, path, is_new=known is None)

    def _places(self, name: str, wanted: DeclaredTopic, path: str, *, is_new: bool) -> None:
        here = set(self._on.get(name, ()))
        on = self._brokers_of(wanted, path, here, is_new=is_new)
        common = given(wanted, SETTINGS, path)
        own = {_broker_id(number, f"{path}.on"): part for number, part in _entries(wanted.on)}
        if stray := sorted(own.keys() - {*on, *here}):
            raise wrong(f"{path}.on.{stray[0]}", f"the topic is not on broker {stray[0]}", "add it to `brokers`")
        for broker_id in sorted({*on, *here}):
            part = own.get(broker_id)
            values = common if part is None else {**common, **given(part, SETTINGS, f"{path}.on.{broker_id}")}
            self._place(name, broker_id, values, path)
        if self._options.prune and (kept := sorted(here - {*on})):
            self.notes.append(f"topic {name} stays on broker {_listed(kept)}, which the file does not name")

    def _place(self, name: str, broker_id: int, values: Mapping[str, Any], path: str) -> None:
        key = (name, broker_id)
        if key in self.records.leaving:
            raise wrong(
                f"{path}.brokers",
                f"topic {name} is being removed from broker {broker_id}, or was deleted there softly",
                "wait until it is gone (`pytubemq topic show`), or bring it back with "
                "admin_redo_deleted_topic_deploy_info",
            )
        known = self.records.places.get(key) or DeployRecord(name, broker_id)
        self.records.places[key] = replace(known, props=self._props(known.props, values))

    def _brokers_of(self, wanted: DeclaredTopic, path: str, here: Collection[int], *, is_new: bool) -> list[int]:
        if wanted.brokers is not UNSET:
            for broker_id in wanted.brokers:
                if broker_id not in self.records.brokers:
                    raise wrong(f"{path}.brokers", f"broker {broker_id} is not known", "add it to the section brokers")
            return sorted(set(wanted.brokers))
        if not is_new:
            return sorted(here)
        on = sorted(b for b, record in self.records.brokers.items() if record.manage_status in _IN_USE)
        if not on:
            raise wrong(path, "no Broker is in use that could take it", "add one to the section brokers, or start one")
        return on

    def _props(
        self,
        now: TopicProps,
        values: Mapping[str, Any],
        *,
        below: TopicProps = TopicProps(),  # noqa: B008 - frozen
    ) -> TopicProps:
        """Return properties with these values. The others stay or, when pruned, are those of `below`."""
        if self._options.prune:
            now = replace(below, **{name: getattr(now, name) for name in _ONLY_GROW})
        return replace(now, **values)

    # --- groups and users ---------------------------------------------------------------------------------------

    def _group(self, name: str, wanted: DeclaredGroup) -> None:
        path = f"groups.{name}"
        known = self.records.groups.get(name)
        if known is None or not self._options.only_new:
            if known is None:
                _check_name(check_group, name, "groups")
            values = given(wanted, GROUP, path)
            default = GroupRecord(name, qry_priority_id=self.records.cluster.qry_priority_id)
            if known is not None:
                default = replace(default, stamp=known.stamp) if self._options.prune else known
            self.records.groups[name] = replace(default, **values)
        for topic, part in _entries(wanted.topics):
            self._rule(name, topic, part, f"{path}.topics.{topic}")

    def _rule(self, group: str, topic: str, part: Declared, path: str) -> None:
        if topic not in self.records.topics:
            raise wrong(path, f"topic {topic} is not known", "add it to the section topics")
        known = self.records.consumes.get((group, topic))
        if known is not None and self._options.only_new:
            return
        base = ConsumeRecord(group, topic) if known is None else known
        if self._options.prune:
            base = ConsumeRecord(group, topic, stamp=base.stamp)
        self.records.consumes[group, topic] = replace(base, **given(part, CONSUMPTION, path))

    def _user(self, name: str, wanted: DeclaredUser) -> None:
        path = f"users.{name}"
        known = self.records.users.get(name)
        if known is not None and self._options.only_new:
            return
        if known is None:
            _check_user(name)
        granted = {_words(text, path) for text in (() if wanted.permissions is UNSET else wanted.permissions)}
        record = UserRecord(name) if known is None else known
        enabled = record.user_enabled or self._options.prune if wanted.enabled is UNSET else wanted.enabled
        if record.user_enabled != enabled and known is not None:
            record = replace(record, secret_epoch=record.secret_epoch + 1)  # ends its tokens
        self.records.users[name] = replace(record, user_enabled=enabled)
        for words in sorted(granted):
            self.records.permissions.setdefault((name, words), PermissionRecord(name, *words))
        if self._options.prune and wanted.permissions is not UNSET:
            for key in [key for key in self.records.permissions if key[0] == name and key[1] not in granted]:
                del self.records.permissions[key]

    # --- pruning ------------------------------------------------------------------------------------------------

    def _prune(self) -> None:
        wanted, records = self._wanted, self.records
        if wanted.brokers is not UNSET:
            named = {_broker_id(name, "brokers") for name in wanted.brokers}
            if kept := sorted(records.brokers.keys() - named):
                self.notes.append(f"broker {_listed(kept)} stays: a Broker is not removed by pruning")
        if wanted.groups is not UNSET:
            self._prune_groups(wanted.groups)
        if wanted.topics is not UNSET:
            self._prune_topics(wanted.topics)
        if wanted.users is not UNSET:
            for name in records.users.keys() - wanted.users.keys():
                del records.users[name]
            for key in [key for key in records.permissions if key[0] not in records.users]:
                del records.permissions[key]

    def _prune_groups(self, wanted: Mapping[str, DeclaredGroup]) -> None:
        for name in self.records.groups.keys() - wanted.keys():
            del self.records.groups[name]
        for group, topic in [*self.records.consumes]:
            part = wanted.get(group)
            if part is None or part.topics is UNSET or topic not in part.topics:
                del self.records.consumes[group, topic]

    def _prune_topics(self, wanted: Collection[str]) -> None:
        ruled = {topic for _, topic in self.records.consumes}
        leaving = {topic for topic, _ in self.records.leaving}
        for name in sorted(self.records.topics.keys() - set(wanted)):
            on = self._on.get(name, ())
            if not on and name in leaving:
                continue  # it is being removed already
            if name in ruled:
                raise wrong(
                    "topics",
                    f"{name} has rules for groups and is not named",
                    "name the topic, or remove its rules as well",
                )
            self.removed_topics.append(name)
            del self.records.topics[name]
            for broker_id in on:
                del self.records.places[name, broker_id]


def _entries(section: Any) -> list[tuple[str, Any]]:
    return [] if section is UNSET else list(section.items())


def _broker_id(name: str, path: str) -> int:
    try:
        return check_broker_id(int(name) if name.isascii() and name.isdigit() and len(name) < 12 else 0)
    except FormatError as error:
        raise wrong(path, f"{name[:80]!r} is not the id of a Broker", error.hint) from error


def _address(wanted: DeclaredBroker, known: BrokerRecord | None, path: str) -> Address:
    if wanted.address is UNSET:
        if known is None:
            raise wrong(path, "a new Broker needs the key address", "give it as in 10.0.0.7:8123")
        return known.address
    try:
        address = Address.parse(wanted.address)
        if known is not None and known.address.host == address.host:
            return address
        check_broker_host(address.host)
    except FormatError as error:
        raise wrong(f"{path}.address", error.message, error.hint) from error
    if known is not None:
        raise wrong(
            f"{path}.address",
            f"broker {known.broker_id} is at {known.address}, and its host cannot change",
            "remove the Broker and add it again",
        )
    return address


def _check_status(known: BrokerRecord | None, made: BrokerRecord, path: str) -> None:
    if known is None or known.manage_status is made.manage_status:
        return
    draft = ManageStatus.DRAFT
    if made.manage_status is draft:
        raise wrong(f"{path}.manage_status", f"is {known.manage_status.text}, which cannot become a draft again")
    if known.manage_status is draft and made.manage_status is not ManageStatus.ONLINE:
        raise wrong(f"{path}.manage_status", "a draft can only go online", "apply `online` first")


def _check_name(check: Any, name: str, path: str) -> None:
    try:
        check(name)
    except MessageError as error:
        raise wrong(path, error.message, error.hint) from error


def _check_user(name: str) -> None:
    if not 0 < len(name) <= _MAX_USER_NAME_CHARS or not name.isprintable() or any(char in name for char in " @#:,/"):
        raise wrong(
            "users",
            f"{name[:80]!r} is no name of a user",
            f"use 1 to {_MAX_USER_NAME_CHARS} characters, without blanks and without @ # : , /",
        )


def _words(text: str, path: str) -> Words:
    parts = text.split(" ")
    if len(parts) == 2:  # the cluster has no name
        parts.append("*")
    if len(parts) != 3:
        raise wrong(f"{path}.permissions", f"{text[:80]!r} is no permission", "write it as in `produce topic orders*`")
    try:
        found = parse_permission(*parts)
    except FormatError as error:
        raise wrong(f"{path}.permissions", error.message, error.hint) from error
    return found.operation.value, found.kind.value, found.pattern


def _listed(numbers: Collection[int]) -> str:
    return ", ".join(map(str, numbers))


def is_equal(one: Any, other: Any) -> bool:
    """True if two records differ in nothing but their stamps."""
    names = [field.name for field in fields(one) if field.name != "stamp"]
    return type(one) is type(other) and all(getattr(one, name) == getattr(other, name) for name in names)
