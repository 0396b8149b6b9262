"""The metadata of any records: exported, applied to an empty cluster and exported again, it is the same text."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.cli.commands.metadata.metadata_file import metadata_text
from pytubemq.core.flow import format_rules, parse_rules
from pytubemq.master.declaration.exporting import declare
from pytubemq.master.declaration.merging import MergeOptions
from pytubemq.master.declaration.plan import make_plan
from pytubemq.master.declaration.reading import read_declaration
from pytubemq.master.declaration.records import Records
from pytubemq.master.registry.audit import Audit
from pytubemq.model.durability import Durability
from pytubemq.model.ids import Address
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
from pytubemq.security.permissions import ALLOWED_OPERATIONS, parse_permission

if TYPE_CHECKING:
    from pytubemq.master.declaration.plan import Plan

BY = Audit("ann", 1000)
RULES = format_rules(parse_rules('[{"type":1,"rule":[{"zeroCnt":3,"freqInMs":300}]}]'))
EMPTY = Records(ClusterRecord(), {}, {}, {}, {}, {}, {}, {}, {})


def _optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


PROPS = st.builds(
    TopicProps,
    num_topic_stores=_optional(st.integers(1, 3)),
    num_partitions=_optional(st.integers(1, 9)),
    unflush_threshold=_optional(st.integers(0, 2_000)),
    unflush_interval=_optional(st.integers(1, 20_000)),
    unflush_data_hold=_optional(st.integers(0, 9)),
    mem_cache_msg_size_in_mb=_optional(st.integers(2, 2_048)),
    mem_cache_msg_cnt_in_k=_optional(st.integers(1, 99)),
    mem_cache_flush_intvl=_optional(st.integers(4_000, 20_000)),
    accept_publish=_optional(st.booleans()),
    accept_subscribe=_optional(st.booleans()),
    delete_policy=_optional(st.sampled_from(["delete,72h", "delete,90m", "delete,10GB", "delete,1h,5MB", "keep"])),
    durability=_optional(st.sampled_from(Durability)),
)
PRIORITIES = st.sampled_from([101, 102, 203, 301, 303])
NAMES = st.sampled_from(["a", "orders", "orders_2", "Z9"])
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=8)


@st.composite
def _records(draw: st.DrawFn) -> Records:
    brokers = {
        number: BrokerRecord(
            number,
            Address(f"10.0.0.{number}", draw(st.sampled_from([8123, 9000]))),
            region_id=draw(st.integers(0, 3)),
            manage_status=draw(st.sampled_from(ManageStatus)),
            props=draw(PROPS),
        )
        for number in draw(st.sets(st.integers(1, 12), max_size=3))
    }
    topics = {
        name: TopicRecord(
            name,
            topic_name_id=draw(st.sampled_from([-2, 0, 7])),
            enable_auth_control=draw(st.booleans()),
            max_message_bytes=draw(st.integers(1, 1 << 20)),
        )
        for name in draw(st.sets(NAMES))
    }
    places = {
        (topic, broker_id): DeployRecord(topic, broker_id, props=draw(PROPS))
        for topic in topics
        for broker_id in brokers
        if draw(st.booleans())
    }
    groups = {
        name: GroupRecord(
            name,
            res_check_enable=draw(st.booleans()),
            alwd_broker_client_rate=draw(st.integers(0, 9)),
            qry_priority_id=draw(PRIORITIES),
            flow_ctrl_enable=draw(st.booleans()),
            flow_ctrl_info=draw(st.sampled_from([RULES, "[]"])),
        )
        for name in draw(st.sets(NAMES.map(lambda name: f"g-{name}")))
    }
    consumes = {
        (group, topic): ConsumeRecord(
            group,
            topic,
            consume_enable=draw(st.booleans()),
            disable_csm_rsn=draw(TEXTS),
            filter_enable=draw(st.booleans()),
            filter_conds=draw(st.frozensets(NAMES)),
        )
        for group in groups
        for topic in topics
        if draw(st.booleans())
    }
    users = {name: UserRecord(name, user_enabled=draw(st.booleans())) for name in draw(st.sets(NAMES))}
    permissions = {}
    for user in users:
        for kind in draw(st.sets(st.sampled_from(sorted(ALLOWED_OPERATIONS)))):
            operation = draw(st.sampled_from(sorted(ALLOWED_OPERATIONS[kind])))
            found = parse_permission(operation, kind, "*" if kind == "cluster" else draw(NAMES) + "*")
            words = (found.operation.value, found.kind.value, found.pattern)
            permissions[user, words] = PermissionRecord(user, *words)
    cluster = ClusterRecord(
        qry_priority_id=draw(PRIORITIES), flow_ctrl_info=RULES, props=draw(PROPS).over(BUILT_IN_PROPS)
    )
    return Records(cluster, brokers, topics, places, {}, consumes, groups, users, permissions)


def _text(records: Records) -> str:
    return metadata_text(msgspec.to_builtins(declare(records)))


def _plan(records: Records, text: str, options: MergeOptions) -> Plan:
    return make_plan(
        records,
        read_declaration(tomllib.loads(text)),
        options,
        by=BY,
        brokers_by_user={},
        new_epoch=lambda: 1,
    )


def _applied(records: Records, plan: Plan) -> Records:
    """Return records with the changes of a plan."""
    after = records.copy()
    for gone in plan.deletes:
        del _kind(after, gone)[_key(gone)]
    for put in plan.puts:
        if isinstance(put, ClusterRecord):
            after.cluster = put
        else:
            _kind(after, put)[_key(put)] = put
    return after


def _kind(records: Records, record: Any) -> dict[Any, Any]:
    kinds: dict[type[Any], dict[Any, Any]] = {
        BrokerRecord: records.brokers,
        TopicRecord: records.topics,
        DeployRecord: records.places,
        ConsumeRecord: records.consumes,
        GroupRecord: records.groups,
        UserRecord: records.users,
        PermissionRecord: records.permissions,
    }
    return kinds[type(record)]


def _key(record: Any) -> Any:
    match record:
        case BrokerRecord():
            return record.broker_id
        case DeployRecord():
            return (record.topic, record.broker_id)
        case ConsumeRecord():
            return (record.group, record.topic)
        case GroupRecord():
            return record.group
        case UserRecord():
            return record.user
        case PermissionRecord():
            return (record.user, (record.operation, record.resource_kind, record.pattern))
    return record.topic


@given(_records(), st.sampled_from([MergeOptions(), MergeOptions(prune=True), MergeOptions(only_new=True)]))
def test_an_export_applied_to_an_empty_cluster_gives_the_same_export(records: Records, options: MergeOptions) -> None:
    text = _text(records)
    made = _applied(EMPTY, _plan(EMPTY, text, options))
    assert _text(made) == text
    assert _plan(made, text, options).changes == []


@given(_records())
def test_an_export_applied_to_its_own_cluster_changes_nothing(records: Records) -> None:
    plan = _plan(records, _text(records), MergeOptions(prune=True))
    assert (plan.changes, plan.puts, plan.deletes, plan.notes) == ([], [], [], [])


def test_the_text_is_read_back_whatever_characters_it_has() -> None:
    value = {"users": {'a"b': {"note": 'it\'s "x" \\ \t \x7f é'}, "c.d": {"list": ["x" * 60, "y" * 60]}, "e": {}}}
    assert tomllib.loads(metadata_text(value)) == value
