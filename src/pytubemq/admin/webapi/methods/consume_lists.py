"""The older lists of denied and of allowed groups, and of filters: views of the records in `consumes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytubemq.admin.webapi.envelope import Reply, many_rows, old_base, outcomes
from pytubemq.admin.webapi.kinds import FilterItems, Int
from pytubemq.admin.webapi.method import Method
from pytubemq.admin.webapi.methods.consumes import (
    ADD_LISTS,
    GROUPS,
    KEYS,
    PAIR,
    TOPICS,
    TOPICS_NEEDED,
    UPD_LISTS,
    conditions,
    for_existing,
    for_objects,
    for_pairs,
    found_records,
)
from pytubemq.admin.webapi.params import OPS_ADD, OPS_UPD, Args, Param, filters, json_set
from pytubemq.master.registry.consumes import DENIED, NOT_ALLOWED

if TYPE_CHECKING:
    from pytubemq.master.service import MasterService
    from pytubemq.model.records import ConsumeRecord

FILTER_ON, FILTER_OFF = 2, 0
_FILTER = (Param("condStatus", Int(0, 2)), Param("filterConds", FilterItems()))
_OFF_LISTS = (*OPS_UPD, TOPICS_NEEDED, GROUPS)
_NAME_SET = json_set("groupNameJsonSet", *PAIR)
_FILTER_SET = json_set("filterCondJsonSet", *PAIR, *_FILTER)


async def _query_denied(master: MasterService, args: Args) -> Reply:
    return await many_rows(
        {
            "groupName": record.group,
            "topicName": record.topic,
            "reason": record.disable_csm_rsn,
            **old_base(record.stamp),
        }
        for record in found_records(master, args)
        if not record.consume_enable
    )


async def _query_allowed(master: MasterService, args: Args) -> Reply:
    return await many_rows(
        {"topicName": record.topic, "groupName": record.group, **old_base(record.stamp)}
        for record in found_records(master, args)
        if record.consume_enable
    )


async def _query_filters(master: MasterService, args: Args) -> Reply:
    wanted = args.get("condStatus")
    return await many_rows(
        {
            "topicName": record.topic,
            "groupName": record.group,
            "condStatus": cond_status(record),
            "filterConds": conditions(record.filter_conds),
            **old_base(record.stamp),
        }
        for record in found_records(master, args)
        if wanted is None or (wanted == FILTER_ON) == record.filter_enable
    )


def cond_status(record: ConsumeRecord) -> int:
    """Return the state of a filter as the older methods number it."""
    return FILTER_ON if record.filter_enable else FILTER_OFF


def _filter_values(args: Args) -> dict[str, Any]:
    status = args.get("condStatus")
    return {
        "filter_enable": None if status is None else status == FILTER_ON,
        "filter_conds": args.get("filterConds"),
    }


def _put(**values: Any) -> Any:
    """Return a method that makes or changes the record of every pair of the lists."""

    async def run(master: MasterService, args: Args) -> Reply:
        return outcomes(await master.registry.consumes.put(for_pairs(args, **values)), KEYS)

    return run


def _put_many(**values: Any) -> Any:
    """Return a method that makes or changes the record of every object of the set."""

    async def run(master: MasterService, args: Args) -> Reply:
        changes = for_objects(args, "groupNameJsonSet", lambda _: values)
        return outcomes(await master.registry.consumes.put(changes), KEYS)

    return run


def _flip(**values: Any) -> Any:
    """Return a method that changes every existing record of the lists."""

    async def run(master: MasterService, args: Args) -> Reply:
        return outcomes(await master.registry.consumes.flip(for_existing(master, args, **values)), KEYS)

    return run


def _flip_many(**values: Any) -> Any:
    """Return a method that changes every existing record of the set."""

    async def run(master: MasterService, args: Args) -> Reply:
        changes = for_objects(args, "groupNameJsonSet", lambda _: values)
        return outcomes(await master.registry.consumes.flip(changes), KEYS)

    return run


async def _add_filter(master: MasterService, args: Args) -> Reply:
    values = {"filter_enable": False, **{k: v for k, v in _filter_values(args).items() if v is not None}}
    return outcomes(await master.registry.consumes.set(for_pairs(args, **values)), KEYS)


async def _add_filters(master: MasterService, args: Args) -> Reply:
    def values(one: Args) -> dict[str, Any]:
        return {"filter_enable": False, **_of_object_or_request(one, args)}

    return outcomes(await master.registry.consumes.set(for_objects(args, "filterCondJsonSet", values)), KEYS)


async def _mod_filter(master: MasterService, args: Args) -> Reply:
    return outcomes(await master.registry.consumes.update(for_pairs(args, **_filter_values(args))), KEYS)


async def _mod_filters(master: MasterService, args: Args) -> Reply:
    changes = for_objects(args, "filterCondJsonSet", lambda one: _of_object_or_request(one, args))
    return outcomes(await master.registry.consumes.update(changes), KEYS)


def _of_object_or_request(one: Args, request: Args) -> dict[str, Any]:
    """Return the values of an object, with the request's for those that it leaves out."""
    said = {name: value for name, value in _filter_values(request).items() if value is not None}
    return {**said, **{name: value for name, value in _filter_values(one).items() if value is not None}}


_DENY = {"consume_enable": False, "reason": DENIED}
_ALLOW = {"consume_enable": True, "reason": ""}
_DISALLOW = {"consume_enable": False, "reason": NOT_ALLOWED}
_NO_FILTER: dict[str, Any] = {"filter_enable": False, "filter_conds": frozenset()}

METHODS: tuple[Method[MasterService], ...] = (
    Method(
        "admin_query_black_consumer_group_info",
        "The records with consuming off.",
        False,
        filters(GROUPS, TOPICS),
        _query_denied,
    ),
    Method("admin_add_black_consumergroup_info", "Switch consuming off.", True, ADD_LISTS, _put(**_DENY)),
    Method(
        "admin_bath_add_black_consumergroup_info",
        "Switch consuming off.",
        True,
        (*OPS_ADD, _NAME_SET),
        _put_many(**_DENY),
        aliases=("admin_batch_add_black_consumergroup_info",),
    ),
    Method(
        "admin_delete_black_consumergroup_info",
        "Switch consuming on; the records stay.",
        True,
        _OFF_LISTS,
        _flip(**_ALLOW),
    ),
    Method(
        "admin_batch_delete_black_consumergroup_info",
        "Switch consuming on; the records stay.",
        True,
        (*OPS_UPD, _NAME_SET),
        _flip_many(**_ALLOW),
        aliases=("admin_bath_delete_black_consumergroup_info",),
    ),
    Method(
        "admin_query_allowed_consumer_group_info",
        "The records with consuming on.",
        False,
        filters(GROUPS, TOPICS),
        _query_allowed,
    ),
    Method("admin_add_authorized_consumergroup_info", "Switch consuming on.", True, ADD_LISTS, _put(**_ALLOW)),
    Method(
        "admin_bath_add_authorized_consumergroup_info",
        "Switch consuming on.",
        True,
        (*OPS_ADD, _NAME_SET),
        _put_many(**_ALLOW),
        aliases=("admin_batch_add_authorized_consumergroup_info",),
    ),
    Method(
        "admin_delete_allowed_consumer_group_info",
        "Switch consuming off; the records stay.",
        True,
        _OFF_LISTS,
        _flip(**_DISALLOW),
    ),
    Method(
        "admin_batch_del_authorized_consumergroup_info",
        "Switch consuming off; the records stay.",
        True,
        (*OPS_UPD, _NAME_SET),
        _flip_many(**_DISALLOW),
        aliases=("admin_bath_del_authorized_consumergroup_info",),
    ),
    Method(
        "admin_query_group_filtercond_info",
        "The filters of groups; `condStatus` 2 = on.",
        False,
        filters(GROUPS, TOPICS, *_FILTER),
        _query_filters,
    ),
    Method(
        "admin_add_group_filtercond_info",
        "Set filters (`condStatus` 2 = on, else off); add missing records, with consuming on.",
        True,
        (*ADD_LISTS, *_FILTER),
        _add_filter,
    ),
    Method(
        "admin_bath_add_group_filtercond_info",
        "Set filters; values that an object leaves out are taken from the request.",
        True,
        (*OPS_ADD, *_FILTER, _FILTER_SET),
        _add_filters,
        aliases=("admin_batch_add_group_filtercond_info",),
    ),
    Method("admin_mod_group_filtercond_info", "Change filters.", True, (*UPD_LISTS, *_FILTER), _mod_filter),
    Method(
        "admin_bath_mod_group_filtercond_info",
        "Change filters; values that an object leaves out are taken from the request.",
        True,
        (*OPS_UPD, *_FILTER, _FILTER_SET),
        _mod_filters,
        aliases=("admin_batch_mod_group_filtercond_info",),
    ),
    Method(
        "admin_del_group_filtercond_info",
        "Switch filters off and empty them; the records stay.",
        True,
        _OFF_LISTS,
        _flip(**_NO_FILTER),
    ),
)
