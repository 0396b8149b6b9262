"""Methods about the records of topics: message sizes, and access control."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from pytubemq.admin.webapi.envelope import Reply, base, date, many_rows, outcomes, rows, who
from pytubemq.admin.webapi.kinds import TOPIC, Bool, ListOf, NameId
from pytubemq.admin.webapi.long_responses import Turns
from pytubemq.admin.webapi.method import Method, change
from pytubemq.admin.webapi.methods.cluster import MESSAGE_MIB
from pytubemq.admin.webapi.methods.consume_lists import cond_status
from pytubemq.admin.webapi.methods.consumes import conditions
from pytubemq.admin.webapi.params import OPS_ADD, OPS_UPD, Args, CallError, Param, filters, has_stamp, json_set
from pytubemq.master.registry.topics import TopicSpec
from pytubemq.model.limits import MIB
from pytubemq.security.permissions import Operation, ResourceKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.master.registry.audit import Audit
    from pytubemq.master.registry.outcome import Outcome
    from pytubemq.master.registry.topics import TopicRegistry
    from pytubemq.master.service import MasterService
    from pytubemq.model.records import ConsumeRecord, TopicRecord

KEYS = ("topicName",)

_TOPIC = Param("topicName", TOPIC, required=True)
_TOPICS = Param("topicName", ListOf(TOPIC))
_TOPICS_NEEDED = Param("topicName", ListOf(TOPIC), required=True)
_CONTROL = (
    Param("topicNameId", NameId()),
    Param("enableAuthControl", Bool()),
    Param("maxMsgSizeInMB", MESSAGE_MIB),
)
_IS_ENABLE = Param("isEnable", Bool(), default=False)


# --- queries ----------------------------------------------------------------------------------------------------


async def _query_controls(master: MasterService, args: Args) -> Reply:
    return await many_rows(control_shown(record) for record in _records(master, args))


async def _query_authorization(master: MasterService, args: Args) -> Reply:
    found, turns = [], Turns()
    for record in _records(master, args):
        topic, consumes = record.topic, consumes_of(master, record.topic, args)
        groups = await turns.all(
            {"topicName": topic, "groupName": consume.group, **who(consume.stamp)}
            for consume in consumes
            if consume.consume_enable
        )
        conds = await turns.all(
            {
                "topicName": topic,
                "groupName": consume.group,
                "condStatus": cond_status(consume),
                "filterConds": conditions(consume.filter_conds),
                **who(consume.stamp),
            }
            for consume in consumes
        )
        await turns.took(1)
        found.append(
            {
                "topicName": record.topic,
                "isEnable": record.enable_auth_control,
                **who(record.stamp),
                "authConsumeGroup": groups,
                "groupCount": len(groups),
                "authFilterCondSet": conds,
                "filterCount": len(conds),
            }
        )
    return rows(found)


def _records(master: MasterService, args: Args) -> list[TopicRecord]:
    topics = master.catalogue.topics
    named = args.get("topicName", ()) or sorted(topics)
    return [topics[name] for name in named if name in topics and has_stamp(topics[name].stamp, args)]


def consumes_of(master: MasterService, topic: str, args: Args) -> Sequence[ConsumeRecord]:
    """Return the records about a topic and its groups, of those that the caller of a query sees."""
    found = master.registry.consumes.find((), (topic,))
    if args.may(Operation.ADMIN, ResourceKind.TOPIC, topic):
        return found
    return [record for record in found if args.shows_consumer(topic, record.group)]


def control_shown(record: TopicRecord) -> dict[str, Any]:
    return {
        "topicName": record.topic,
        "topicNameId": record.topic_name_id,
        "enableAuthControl": record.enable_auth_control,
        "maxMsgSizeInMB": record.max_message_bytes // MIB,
        **base(record.stamp),
    }


def consume_shown(record: ConsumeRecord) -> dict[str, Any]:
    return {
        "topicName": record.topic,
        "groupName": record.group,
        "consumeEnable": record.consume_enable,
        "disableCsmRsn": record.disable_csm_rsn,
        "filterEnable": record.filter_enable,
        "filterConds": conditions(record.filter_conds),
        **base(record.stamp),
    }


async def auth_data(master: MasterService, record: TopicRecord, args: Args, turns: Turns) -> dict[str, Any]:
    """Return the access control of a topic; empty while all may consume. Its creator is the last author, as there."""
    if not record.enable_auth_control:
        return {}
    consumes = consumes_of(master, record.topic, args)
    groups = await turns.all({"groupName": c.group, **who(c.stamp)} for c in consumes if c.consume_enable)
    conds = await turns.all(_filter_shown(consume) for consume in consumes)
    return {
        "enableAuthControl": True,
        "createUser": record.stamp.modify_user,
        "createDate": date(record.stamp.modify_ms),
        "authConsumeGroup": groups,
        "groupCount": len(groups),
        "authFilterCondSet": conds,
        "filterCount": len(conds),
    }


def _filter_shown(record: ConsumeRecord) -> dict[str, Any]:
    stamp = who(record.stamp)
    del stamp["createUser"]
    shown = {"condStatus": cond_status(record), "filterConds": conditions(record.filter_conds)}
    return {"groupName": record.group, **shown, **stamp}


# --- changes ----------------------------------------------------------------------------------------------------

_TopicChange = Callable[["TopicRegistry", list[tuple[TopicSpec, "Audit"]]], Awaitable[list["Outcome"]]]


def _topics(change: _TopicChange) -> Callable[[MasterService, Args], Awaitable[Reply]]:
    async def run(master: MasterService, args: Args) -> Reply:
        if args.given("topicNameId") and len(args["topicName"]) > 1:
            raise CallError("parameter topicNameId is for one topic: name one, or leave it out")
        specs = [(_topic_spec(topic, args), args.audit) for topic in args["topicName"]]
        return outcomes(await change(master.registry.topics, specs), KEYS)

    return run


def _topic_set(change: _TopicChange, name: str) -> Callable[[MasterService, Args], Awaitable[Reply]]:
    async def run(master: MasterService, args: Args) -> Reply:
        specs = [(_topic_spec(item["topicName"], item), item.audit) for item in args.items(name)]
        return outcomes(await change(master.registry.topics, specs), KEYS)

    return run


def _topic_spec(topic: str, args: Args) -> TopicSpec:
    size = args.get("maxMsgSizeInMB")
    return TopicSpec(
        topic,
        topic_name_id=args.get("topicNameId"),
        enable_auth_control=args.get("enableAuthControl", args.get("isEnable")),
        max_message_bytes=None if size is None else size * MIB,
    )


async def _disable_auth(master: MasterService, args: Args) -> Reply:
    return outcomes(await master.registry.topics.disable_auth(args["topicName"], by=args.audit), KEYS)


async def _delete(master: MasterService, args: Args) -> Reply:
    return outcomes(await master.registry.topics.delete(args["topicName"], by=args.audit), KEYS)


METHODS: tuple[Method[MasterService], ...] = (
    Method("admin_query_topic_control_info", "The records of topics.", False, filters(_TOPICS), _query_controls),
    change(
        "admin_add_topic_control_info",
        "Add records of topics.",
        (*OPS_ADD, _TOPICS_NEEDED, *_CONTROL),
        _topics(lambda topics, specs: topics.add(specs)),
    ),
    change(
        "admin_update_topic_control_info",
        "Change records of topics.",
        (*OPS_UPD, _TOPICS_NEEDED, *_CONTROL),
        _topics(lambda topics, specs: topics.update(specs)),
    ),
    change(
        "admin_batch_add_topic_control_info",
        "Add records of topics, each with its own values.",
        (*OPS_ADD, json_set("topicCtrlJsonSet", _TOPIC, *_CONTROL)),
        _topic_set(lambda topics, specs: topics.add(specs), "topicCtrlJsonSet"),
        ("admin_bath_add_topic_control_info",),
    ),
    change(
        "admin_batch_update_topic_control_info",
        "Change records of topics, each with its own values.",
        (*OPS_UPD, json_set("topicCtrlJsonSet", _TOPIC, *_CONTROL)),
        _topic_set(lambda topics, specs: topics.update(specs), "topicCtrlJsonSet"),
        ("admin_bath_update_topic_control_info",),
    ),
    change(
        "admin_delete_topic_control_info",
        "Delete records of topics that are on no Broker and that no group has a record about.",
        (*OPS_UPD, _TOPICS_NEEDED),
        _delete,
    ),
    Method(
        "admin_query_topic_authorize_control",
        "The topics that only permitted groups may consume, those groups, and their filters.",
        False,
        filters(_TOPICS),
        _query_authorization,
    ),
    change(
        "admin_set_topic_authorize_control",
        "Let only permitted groups consume topics, or let all.",
        (*OPS_ADD, _TOPICS_NEEDED, _IS_ENABLE),
        _topics(lambda topics, specs: topics.put(specs)),
    ),
    change(
        "admin_batch_add_topic_authorize_control",
        "Let only permitted groups consume topics, or let all, for each topic separately.",
        (*OPS_ADD, json_set("topicJsonSet", _TOPIC, _IS_ENABLE)),
        _topic_set(lambda topics, specs: topics.put(specs), "topicJsonSet"),
        ("admin_bath_add_topic_authorize_control",),
    ),
    change(
        "admin_delete_topic_authorize_control",
        "Let all groups consume topics again.",
        (*OPS_UPD, _TOPICS_NEEDED),
        _disable_auth,
    ),
)
