"""What groups may do with topics: the records, and the older lists of denied and allowed groups and of filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytubemq.admin.webapi.envelope import GOOD, Reply, base, old_base, outcomes, rows
from pytubemq.admin.webapi.kinds import GROUP, REASON, TOPIC, Bool, FilterItems, Int, ListOf
from pytubemq.admin.webapi.method import Method
from pytubemq.admin.webapi.params import OPS_ADD, OPS_UPD, Args, Param, filters, has_stamp, json_set
from pytubemq.master.registry.consumes import DENIED, NOT_ALLOWED, ConsumeChange
from pytubemq.master.registry.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytubemq.master.service import MasterService
    from pytubemq.model.records import ConsumeRecord

KEYS = ("groupName", "topicName")
FILTER_ON, FILTER_OFF = 2, 0

_GROUPS = Param("groupName", ListOf(GROUP), old=("consumeGroup",))
_TOPICS = Param("topicName", ListOf(TOPIC))
_GROUPS_NEEDED = Param("groupName", ListOf(GROUP), required=True)
_TOPICS_NEEDED = Param("topicName", ListOf(TOPIC), required=True)
_PAIR = (Param("groupName", GROUP, required=True), Param("topicName", TOPIC, required=True))
_VALUES = (
    Param("consumeEnable", Bool()),
    Param("disableCsmRsn", REASON),
    Param("filterEnable", Bool()),
    Param("filterConds", FilterItems()),
)
_FILTER = (Param("condStatus", Int(0, 2)), Param("filterConds", FilterItems()))
_FIND = filters(_GROUPS, _TOPICS, Param("consumeEnable", Bool()), Param("filterEnable", Bool()))


# --- queries ----------------------------------------------------------------------------------------------------


async def _query(master: MasterService, args: Args) -> Reply:
    return rows(
        {
            "topicName": record.topic,
            "groupName": record.group,
            "consumeEnable": record.consume_enable,
            "disableCsmRsn": record.disable_csm_rsn,
            "filterEnable": record.filter_enable,
            "filterConds": conditions(record.filter_conds),
            **base(record.stamp),
        }
        for record in _found(master, args)
    )


async def _query_groups(master: MasterService, args: Args) -> Reply:
    found = sorted({record.group for record in _found(master, args)})
    return {**GOOD, "data": found, "count": len(found)}


async def _query_denied(master: MasterService, args: Args) -> Reply:
    return rows(
        {
            "groupName": record.group,
            "topicName": record.topic,
            "reason": record.disable_csm_rsn,
            **old_base(record.stamp),
        }
        for record in _found(master, args)
        if not record.consume_enable
    )


async def _query_allowed(master: MasterService, args: Args) -> Reply:
    return rows(
        {"topicName": record.topic, "groupName": record.group, **old_base(record.stamp)}
        for record in _found(master, args)
        if record.consume_enable
    )


async def _query_filters(master: MasterService, args: Args) -> Reply:
    wanted = args.get("condStatus")
    return rows(
        {
            "topicName": record.topic,
            "groupName": record.group,
            "condStatus": cond_status(record),
            "filterConds": conditions(record.filter_conds),
            **old_base(record.stamp),
        }
        for record in _found(master, args)
        if wanted is None or (wanted == FILTER_ON) == record.filter_enable
    )


def _found(master: MasterService, args: Args) -> Iterable[ConsumeRecord]:
    consume, filtered = args.get("consumeEnable"), args.get("filterEnable")
    items: frozenset[str] = args.get("filterConds", frozenset())
    for record in master.registry.consumes.find(args.get("groupName", ()), args.get("topicName", ())):
        if (
            (consume is None or record.consume_enable == consume)
            and (filtered is None or record.filter_enable == filtered)
            and items <= record.filter_conds
            and has_stamp(record.stamp, args)
        ):
            yield record


def conditions(items: Iterable[str]) -> str:
    """Filter items as the original writes them: `,a,b,`, or nothing."""
    found = sorted(items)
    return f",{','.join(found)}," if found else ""


def cond_status(record: ConsumeRecord) -> int:
    """Whether a filter is on, as the older methods number it."""
    return FILTER_ON if record.filter_enable else FILTER_OFF


# --- changes ----------------------------------------------------------------------------------------------------


def _values(args: Args) -> dict[str, Any]:
    return {
        "consume_enable": args.get("consumeEnable"),
        "reason": args.get("disableCsmRsn"),
        "filter_enable": args.get("filterEnable"),
        "filter_conds": args.get("filterConds"),
    }


def _filter_values(args: Args) -> dict[str, Any]:
    status = args.get("condStatus")
    return {
        "filter_enable": None if status is None else status == FILTER_ON,
        "filter_conds": args.get("filterConds"),
    }


def _pairs(args: Args, **values: Any) -> list[ConsumeChange]:
    """A change for every pair of the two lists."""
    return [
        ConsumeChange(group=group, topic=topic, by=args.audit, **values)
        for group, topic in args.pairs("groupName", "topicName")
    ]


def _objects(args: Args, name: str, values: Callable[[Args], dict[str, Any]]) -> list[ConsumeChange]:
    """A change for every object of a set."""
    return [
        ConsumeChange(group=one["groupName"], topic=one["topicName"], by=one.audit, **values(one))
        for one in args.items(name)
    ]


def _existing(master: MasterService, args: Args, **values: Any) -> list[ConsumeChange]:
    """A change for every record of the groups and topics; of either list, none named = all.

    With both lists named there is one for every pair, so that each is answered.
    """
    if args.get("groupName") and args.get("topicName"):
        return _pairs(args, **values)
    found = master.registry.consumes.find(args.get("groupName", ()), args.get("topicName", ()))
    return [ConsumeChange(group=one.group, topic=one.topic, by=args.audit, **values) for one in found]


async def _add(master: MasterService, args: Args) -> Reply:
    return outcomes(await master.registry.consumes.add(_pairs(args, **_values(args))), KEYS)


async def _update(master: MasterService, args: Args) -> Reply:
    return outcomes(await master.registry.consumes.update(_pairs(args, **_values(args))), KEYS)


async def _add_many(master: MasterService, args: Args) -> Reply:
    return outcomes(await master.registry.consumes.add(_objects(args, "groupCsmJsonSet", _values)), KEYS)


async def _update_many(master: MasterService, args: Args) -> Reply:
    return outcomes(await master.registry.consumes.update(_objects(args, "groupCsmJsonSet", _values)), KEYS)


async def _delete(master: MasterService, args: Args) -> Reply:
    found = await master.registry.consumes.delete(_existing(master, args))
    answered = {outcome.key[0] for outcome in found}
    return outcomes([*found, *(Outcome((group, "")) for group in args["groupName"] if group not in answered)], KEYS)


async def _delete_many(master: MasterService, args: Args) -> Reply:
    changes = _objects(args, "groupCsmJsonSet", lambda _: {})
    return outcomes(await master.registry.consumes.delete(changes), KEYS)


def _put(**values: Any) -> Any:
    """For every pair of the lists: make the record, or change it."""

    async def run(master: MasterService, args: Args) -> Reply:
        return outcomes(await master.registry.consumes.put(_pairs(args, **values)), KEYS)

    return run


def _put_many(**values: Any) -> Any:
    """For every object of the set: make the record, or change it."""

    async def run(master: MasterService, args: Args) -> Reply:
        changes = _objects(args, "groupNameJsonSet", lambda _: values)
        return outcomes(await master.registry.consumes.put(changes), KEYS)

    return run


def _flip(**values: Any) -> Any:
    """For every record of the lists that there is: change it."""

    async def run(master: MasterService, args: Args) -> Reply:
        return outcomes(await master.registry.consumes.flip(_existing(master, args, **values)), KEYS)

    return run


def _flip_many(**values: Any) -> Any:
    """For every record of the set that there is: change it."""

    async def run(master: MasterService, args: Args) -> Reply:
        changes = _objects(args, "groupNameJsonSet", lambda _: values)
        return outcomes(await master.registry.consumes.flip(changes), KEYS)

    return run


async def _add_filter(master: MasterService, args: Args) -> Reply:
    values = {"filter_enable": False, **{k: v for k, v in _filter_values(args).items() if v is not None}}
    return outcomes(await master.registry.consumes.put(_pairs(args, **values)), KEYS)


async def _add_filters(master: MasterService, args: Args) -> Reply:
    def values(one: Args) -> dict[str, Any]:
        return {"filter_enable": False, **_of_object_or_request(one, args)}

    return outcomes(await master.registry.consumes.put(_objects(args, "filterCondJsonSet", values)), KEYS)


async def _mod_filter(master: MasterService, args: Args) -> Reply:
    return outcomes(await master.registry.consumes.update(_pairs(args, **_filter_values(args))), KEYS)


async def _mod_filters(master: MasterService, args: Args) -> Reply:
    changes = _objects(args, "filterCondJsonSet", lambda one: _of_object_or_request(one, args))
    return outcomes(await master.registry.consumes.update(changes), KEYS)


def _of_object_or_request(one: Args, request: Args) -> dict[str, Any]:
    """What an object says goes before what the request does, which the original takes for all of them."""
    said = {name: value for name, value in _filter_values(request).items() if value is not None}
    return {**said, **{name: value for name, value in _filter_values(one).items() if value is not None}}


_DENY = {"consume_enable": False, "reason": DENIED}
_ALLOW = {"consume_enable": True, "reason": ""}
_DISALLOW = {"consume_enable": False, "reason": NOT_ALLOWED}
_NO_FILTER: dict[str, Any] = {"filter_enable": False, "filter_conds": frozenset()}

_ADD_LISTS = (*OPS_ADD, _TOPICS_NEEDED, _GROUPS_NEEDED)
_UPD_LISTS = (*OPS_UPD, _TOPICS_NEEDED, _GROUPS_NEEDED)
_OFF_LISTS = (*OPS_UPD, _TOPICS_NEEDED, _GROUPS)
_CSM_SET = json_set("groupCsmJsonSet", *_PAIR, *_VALUES)
_NAME_SET = json_set("groupNameJsonSet", *_PAIR)
_FILTER_SET = json_set("filterCondJsonSet", *_PAIR, *_FILTER)

METHODS: tuple[Method[MasterService], ...] = (
    Method(
        "admin_query_group_csmctrl_info",
        "The records of what groups may do with topics; of `filterConds`, those that have all of them.",
        False,
        (*_FIND, Param("filterConds", FilterItems())),
        _query,
    ),
    Method("admin_query_booked_csmctrl_groups", "The groups that have such records.", False, _FIND, _query_groups),
    Method(
        "admin_add_group_csmctrl_info",
        "Adds a record for every pair; consuming is on and filtering off unless said otherwise.",
        True,
        (*_ADD_LISTS, *_VALUES),
        _add,
    ),
    Method(
        "admin_batch_add_group_csmctrl_info",
        "Adds records.",
        True,
        (*OPS_ADD, _CSM_SET),
        _add_many,
        aliases=("admin_bath_add_group_csmctrl_info",),
    ),
    Method("admin_update_group_csmctrl_info", "Changes records.", True, (*_UPD_LISTS, *_VALUES), _update),
    Method(
        "admin_batch_update_group_csmctrl_info",
        "Changes records.",
        True,
        (*OPS_UPD, _CSM_SET),
        _update_many,
        aliases=("admin_bath_update_group_csmctrl_info",),
    ),
    Method(
        "admin_delete_group_csmctrl_info",
        "Deletes the records of groups; without `topicName` for all topics.",
        True,
        (*OPS_UPD, _GROUPS_NEEDED, _TOPICS),
        _delete,
    ),
    Method(
        "admin_batch_delete_group_csmctrl_info",
        "Deletes records.",
        True,
        (*OPS_UPD, json_set("groupCsmJsonSet", *_PAIR)),
        _delete_many,
        aliases=("admin_bath_delete_group_csmctrl_info",),
    ),
    Method(
        "admin_query_black_consumer_group_info",
        "The records with consuming off.",
        False,
        filters(_GROUPS, _TOPICS),
        _query_denied,
    ),
    Method("admin_add_black_consumergroup_info", "Switches consuming off.", True, _ADD_LISTS, _put(**_DENY)),
    Method(
        "admin_bath_add_black_consumergroup_info",
        "Switches consuming off.",
        True,
        (*OPS_ADD, _NAME_SET),
        _put_many(**_DENY),
        aliases=("admin_batch_add_black_consumergroup_info",),
    ),
    Method(
        "admin_delete_black_consumergroup_info",
        "Switches consuming on; the records stay.",
        True,
        _OFF_LISTS,
        _flip(**_ALLOW),
    ),
    Method(
        "admin_batch_delete_black_consumergroup_info",
        "Switches consuming on; the records stay.",
        True,
        (*OPS_UPD, _NAME_SET),
        _flip_many(**_ALLOW),
        aliases=("admin_bath_delete_black_consumergroup_info",),
    ),
    Method(
        "admin_query_allowed_consumer_group_info",
        "The records with consuming on.",
        False,
        filters(_GROUPS, _TOPICS),
        _query_allowed,
    ),
    Method("admin_add_authorized_consumergroup_info", "Switches consuming on.", True, _ADD_LISTS, _put(**_ALLOW)),
    Method(
        "admin_bath_add_authorized_consumergroup_info",
        "Switches consuming on.",
        True,
        (*OPS_ADD, _NAME_SET),
        _put_many(**_ALLOW),
        aliases=("admin_batch_add_authorized_consumergroup_info",),
    ),
    Method(
        "admin_delete_allowed_consumer_group_info",
        "Switches consuming off; the records stay.",
        True,
        _OFF_LISTS,
        _flip(**_DISALLOW),
    ),
    Method(
        "admin_batch_del_authorized_consumergroup_info",
        "Switches consuming off; the records stay.",
        True,
        (*OPS_UPD, _NAME_SET),
        _flip_many(**_DISALLOW),
        aliases=("admin_bath_del_authorized_consumergroup_info",),
    ),
    Method(
        "admin_query_group_filtercond_info",
        "The filters of groups; `condStatus` 2 = on.",
        False,
        filters(_GROUPS, _TOPICS, *_FILTER),
        _query_filters,
    ),
    Method(
        "admin_add_group_filtercond_info",
        "Sets filters (`condStatus` 2 = on, else off); makes missing records with consuming on.",
        True,
        (*_ADD_LISTS, *_FILTER),
        _add_filter,
    ),
    Method(
        "admin_bath_add_group_filtercond_info",
        "Sets filters; what an object leaves out is as the request says.",
        True,
        (*OPS_ADD, *_FILTER, _FILTER_SET),
        _add_filters,
        aliases=("admin_batch_add_group_filtercond_info",),
    ),
    Method("admin_mod_group_filtercond_info", "Changes filters.", True, (*_UPD_LISTS, *_FILTER), _mod_filter),
    Method(
        "admin_bath_mod_group_filtercond_info",
        "Changes filters; what an object leaves out is as the request says.",
        True,
        (*OPS_UPD, *_FILTER, _FILTER_SET),
        _mod_filters,
        aliases=("admin_batch_mod_group_filtercond_info",),
    ),
    Method(
        "admin_del_group_filtercond_info",
        "Switches filters off and empties them; the records stay.",
        True,
        _OFF_LISTS,
        _flip(**_NO_FILTER),
    ),
)
