"""The plan for applying a declaration: the records to write, the changes for people, and what is refused.

The invariant: a plan is made of records alone, so the same records and the same declaration give the same plan; what it
refuses, it refuses as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from pytubemq.errors import BadRequestError, Code
from pytubemq.master.catalogue.topic_deletion import deleted
from pytubemq.master.declaration.differences import differences
from pytubemq.master.declaration.exporting import declare
from pytubemq.master.declaration.keys import wrong
from pytubemq.master.declaration.merging import Merge, is_equal
from pytubemq.master.registry.lockout import brokers_locked_out, loses, may, no_admin_left
from pytubemq.model.limits import (
    MAX_CONSUME_RECORDS,
    MAX_GROUP_RECORDS,
    MAX_PARTITIONS_PER_TOPIC,
    MAX_PERMISSIONS,
    MAX_RECORDS,
    MAX_USERS,
)
from pytubemq.model.policy import keeps_less, parse_delete_policy
from pytubemq.model.records import BUILT_IN_PROPS, TopicProps, UserRecord
from pytubemq.model.topic import is_layout
from pytubemq.security.permissions import Operation, parse_permission

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pytubemq.master.declaration.declaration import Declaration
    from pytubemq.master.declaration.merging import MergeOptions
    from pytubemq.master.declaration.metadata_views import MetadataChange
    from pytubemq.master.declaration.records import Records
    from pytubemq.master.registry.audit import Audit
    from pytubemq.model.records import Record
    from pytubemq.security.permissions import Permission

_LARGEST = (
    ("brokers", "brokers", MAX_RECORDS),
    ("topics", "topics", MAX_RECORDS),
    ("places", "topics on brokers", MAX_RECORDS),
    ("groups", "groups", MAX_GROUP_RECORDS),
    ("consumes", "rules of groups for topics", MAX_CONSUME_RECORDS),
    ("users", "users", MAX_USERS),
    ("permissions", "permissions", MAX_PERMISSIONS),
)
"""The kinds of records, what an error calls them, and how many there may be."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The records to put and to delete, and what these change. `removed` are topics that go with their messages."""

    puts: list[Record]
    deletes: list[Record]
    changes: list[MetadataChange]
    notes: list[str]
    removed: list[str]


def make_plan(
    records: Records,
    declaration: Declaration,
    options: MergeOptions,
    *,
    by: Audit,
    brokers_by_user: Mapping[str, Collection[int]],
    new_epoch: Callable[[], int],
) -> Plan:
    """Return the plan for applying a declaration to records.

    Args:
        records: what there is.
        declaration: what is wanted.
        options: how the two are merged.
        by: the author of the changes.
        brokers_by_user: the registered Brokers, none of which is locked out.
        new_epoch: the first epoch of a new user's secrets.

    Raises:
        BadRequestError: something in the declaration is not allowed; the error names it.
        RefusedError: a registered Broker, or everyone, would be locked out.
    """
    merge = Merge(records, declaration, options)
    merge.run()
    after = merge.records
    for kind, name, most in _LARGEST:
        if len(getattr(after, kind)) > most:
            raise BadRequestError(
                f"there would be {len(getattr(after, kind)):,} {name}, at most {most:,} are allowed",
                hint="declare fewer",
                code=Code.BAD_REQUEST,
            )
    fewer = _check_places(records, after)
    _check_lockout(records, after, brokers_by_user)
    changes = [
        msgspec.structs.replace(change, warning=_warning(change, fewer))
        for change in differences(declare(records), declare(after))
    ]
    if not changes:
        return Plan([], [], [], merge.notes, [])
    puts, deletes = _steps(records, after, merge.removed_topics, by, new_epoch)
    return Plan(puts, deletes, changes, merge.notes, merge.removed_topics)


def _warning(change: MetadataChange, fewer: Collection[str]) -> str:
    if change.kind == "topic" and change.action == "remove":
        return "deletes all its messages"
    if change.kind == "topic" and change.name in fewer:
        return "keeps fewer messages than now: older ones are deleted"
    if change.kind == "cluster" and any(field.key == "retention" for field in change.fields) and fewer:
        return f"keeps fewer messages of {len(fewer)} topics: older ones are deleted"
    if change.kind == "user" and change.action == "create":
        return f"has no secret yet: pytubemq user rotate {change.name}"
    return ""


def _check_places(before: Records, after: Records) -> set[str]:
    """Check the partitions of all topics; return those that would keep fewer messages. Raises BadRequestError."""
    fewer = set()
    for key, place in after.places.items():
        partitions, stores = _of(after, place, "num_partitions"), _of(after, place, "num_topic_stores")
        if not is_layout(partitions, stores):
            raise wrong(
                f"topics.{place.topic}",
                f"would have {partitions * stores} partitions on broker {place.broker_id}",
                f"a Broker takes {MAX_PARTITIONS_PER_TOPIC} of a topic",
            )
        if (known := before.places.get(key)) is None:
            continue
        for name, now, was in (
            ("partitions", partitions, _of(before, known, "num_partitions")),
            ("num_topic_stores", stores, _of(before, known, "num_topic_stores")),
        ):
            if now < was:
                raise wrong(
                    f"topics.{place.topic}.{name}",
                    f"is {was} on broker {place.broker_id}, which cannot become {now}",
                    f"it can only grow: give {was} or more",
                )
        new, old = _of(after, place, "delete_policy"), _of(before, known, "delete_policy")
        if new != old and keeps_less(parse_delete_policy(new), parse_delete_policy(old)):
            fewer.add(place.topic)
    return fewer


def _of(records: Records, place: Any, name: str) -> Any:
    """Return a property of a topic on a Broker, from the first layer that sets it."""
    broker = records.brokers.get(place.broker_id)
    layers: tuple[TopicProps | None, ...] = (
        place.props,
        None if broker is None else broker.props,
        records.cluster.props,
        BUILT_IN_PROPS,
    )
    return next(value for layer in layers if layer is not None and (value := getattr(layer, name)) is not None)


def _check_lockout(before: Records, after: Records, brokers_by_user: Mapping[str, Collection[int]]) -> None:
    had, have = _permissions(before), _permissions(after)
    for user in before.users:
        old, new = had.get(user, []), have.get(user, [])
        if old != new and loses(Operation.BROKER, old, new) and (brokers := brokers_by_user.get(user)):
            raise brokers_locked_out(user, brokers)
    admins = [user for user, granted in had.items() if may(Operation.ADMIN, granted)]
    # A user that this makes has no secret, and only an administrator can give it one.
    if admins and not any(may(Operation.ADMIN, granted) for user, granted in have.items() if user in before.users):
        raise no_admin_left(admins[-1])


def _permissions(records: Records) -> dict[str, list[Permission]]:
    """Return the permissions of each enabled user, in order."""
    found: dict[str, list[Permission]] = {}
    for user, words in sorted(records.permissions):
        if user in records.users and records.users[user].user_enabled:
            found.setdefault(user, []).append(parse_permission(*words))
    return found


def _steps(
    before: Records, after: Records, removed: Collection[str], by: Audit, new_epoch: Callable[[], int]
) -> tuple[list[Record], list[Record]]:
    old, new = dict(before.flat()), dict(after.flat())
    puts: list[Record] = []
    for key, record in new.items():
        known = old.get(key)
        if known is not None and is_equal(known, record):
            continue
        if isinstance(record, UserRecord) and known is None:
            # Random, so that tokens of a removed user are worthless to another one of the same name.
            record = replace(record, secret_epoch=new_epoch())
        is_new = known is None or known.stamp.serial_id < 0
        puts.append(replace(record, stamp=by.made() if is_new else by.changed(record.stamp)))
    gone = set(removed)
    leaving = [place for (topic, _), place in before.places.items() if topic in gone]
    leaving += [place for (topic, _), place in before.leaving.items() if topic in gone]
    puts += [deleted(place, by.ms) for place in leaving]
    # A topic's record goes with its last deployment.
    kept = {("topic", place.topic) for place in leaving} | {("place", (p.topic, p.broker_id)) for p in leaving}
    return puts, [record for key, record in old.items() if key not in new and key not in kept]
