"""Rules of which groups may consume which topics. The older lists of the same records are in `consume_lists`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytubemq.admin.webapi.envelope import GOOD, Reply, base, many_rows, outcomes
from pytubemq.admin.webapi.kinds import GROUP, REASON, TOPIC, Bool, FilterItems, ListOf
from pytubemq.admin.webapi.method import Method
from pytubemq.admin.webapi.params import OPS_ADD, OPS_UPD, Args, Param, filters, has_stamp, json_set
from pytubemq.master.registry.consumes import ConsumeChange
from pytubemq.master.registry.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytubemq.master.service import MasterService
    from pytubemq.model.records import ConsumeRecord

KEYS = ("groupName", "topicName")

GROUPS = Param("groupName", ListOf(GROUP), old=("consumeGroup",))
TOPICS = Param("topicName", ListOf(TOPIC))
GROUPS_NEEDED = Param("groupName", ListOf(GROUP), required=True)
TOPICS_NEEDED = Param("topicName", ListOf(TOPIC), required=True)
PAIR = (Param("groupName", GROUP, required=True), Param("topicName", TOPIC, required=True))
_VALUES = (
    Param("consumeEnable", Bool()),
    Param("disableCsmRsn", REASON),
    Param("filterEnable", Bool()),
    Param("filterConds", FilterItems()),
)
_FIND = filters(GROUPS, TOPICS, Param("consumeEnable", Bool()), Param("filterEnable", Bool()))


# --- queries ----------------------------------------------------------------------------------------------------


async def _query(master: MasterService, args: Args) -> Reply:
    return await many_rows(
        {
            "topicName": record.topic,
            "groupName": record.group,
            "consumeEnable": record.consume_enable,
            "disableCsmRsn": record.disable_csm_rsn,
            "filterEnable": record.filter_enable,
            "filterConds": conditions(record.filter_conds),
            **base(record.stamp),
        }
        for record in found_records(master, args)
    )


async def _query_groups(master: MasterService, args: Args) -> Reply:
    found = sorted({record.group for record in found_records(master, args)})
    return {**GOOD, "data": found, "count": len(found)}


def found_records(master: MasterService, args: Args) -> Iterable[ConsumeRecord]:
    """Yield the records that a query asks for, of those that its caller sees."""
    consume, filtered = args.get("consumeEnable"), args.get("filterEnable")
    items: frozenset[str] = args.get("filterConds", frozenset())
    for record in master.registry.consumes.find(args.get("groupName", ()), args.get("topicName", ())):
        if (
            (consume is None or record.consume_enable == consume)
            and (filtered is None or record.filter_enable == filtered)
            and items <= record.filter_conds
            and has_stamp(record.stamp, args)
            and args.shows_consumer(record.topic, record.group)
        ):
            yield record


def conditions(items: Iterable[str]) -> str:
    """Return filter items as the original writes them: `,a,b,`, or nothing."""
    found = sorted(items)
    return f",{','.join(found)}," if found else ""


# --- changes ----------------------------------------------------------------------------------------------------


def _values(args: Args) -> dict[str, Any]:
    return {
        "consume_enable": args.get("consumeEnable"),
        "reason": args.get("disableCsmRsn"),
        "filter_enable": args.get("filterEnable"),
        "filter_conds": args.get("filterConds"),
    }


def for_pairs(args: Args, **values: Any) -> list[ConsumeChange]:
    """Return a change for every pair of the two lists."""
    return [
        ConsumeChange(group=group, topic=topic, by=args.audit, **values)
        for group, topic in args.pairs("groupName", "topicName")
    ]


def for_objects(args: Args, name: str, values: Callable[[Args], dict[str, Any]]) -> list[ConsumeChange]:
    """Return a change for every object of a set."""
    return [
        ConsumeChange(group=one["groupName"], topic=one["topicName"], by=one.audit, **values(one))
        for one in args.items(name)
    ]


def for_existing(master: MasterService, args: Args, **values: Any) -> list[ConsumeChange]:
    """Return a change for every record of the groups and topics; of either list, none named = all.

    With both lists named there is one for every pair, so that each gets an outcome.
    """
    if args.get("groupName") and args.get("topicName"):
        return for_pairs(args, **values)
    found = master.registry.consumes.find(args.get("groupName", ()), args.get("topicName", ()))
    return [ConsumeChange(group=one.group, topic=one.topic, by=args.audit, **values) for one in found]


async def _add(master: MasterService, args: Args) -> Reply:
    return outcomes(await master.registry.consumes.add(for_pairs(args, **_values(args))), KEYS)


async def _update(master: MasterService, args: Args) -> Reply:
    return outcomes(await master.registry.consumes.update(for_pairs(args, **_values(args))), KEYS)


async def _add_many(master: MasterService, args: Args) -> Reply:
    return outcomes(await master.registry.consumes.add(for_objects(args, "groupCsmJsonSet", _values)), KEYS)


async def _update_many(master: MasterService, args: Args) -> Reply:
    return outcomes(await master.registry.consumes.update(for_objects(args, "groupCsmJsonSet", _values)), KEYS)


async def _delete(master: MasterService, args: Args) -> Reply:
    found = await master.registry.consumes.delete(for_existing(master, args))
    if args.given("topicName"):
        return outcomes(found, KEYS)
    # Without topics a group is one target, as in the original, and its first failure that of all.
    failed = {one.key[0]: one for one in reversed(found) if not one.ok}
    return outcomes([failed.get(group, Outcome((group, ""))) for group in args["groupName"]], KEYS)


async def _delete_many(master: MasterService, args: Args) -> Reply:
    changes = for_objects(args, "groupCsmJsonSet", lambda _: {})
    return outcomes(await master.registry.consumes.delete(changes), KEYS)


ADD_LISTS = (*OPS_ADD, TOPICS_NEEDED, GROUPS_NEEDED)
UPD_LISTS = (*OPS_UPD, TOPICS_NEEDED, GROUPS_NEEDED)
_CSM_SET = json_set("groupCsmJsonSet", *PAIR, *_VALUES)

METHODS: tuple[Method[MasterService], ...] = (
    Method(
        "admin_query_group_csmctrl_info",
        "The rules of which groups may consume which topics; with `filterConds`, those that have all of these.",
        False,
        (*_FIND, Param("filterConds", FilterItems())),
        _query,
    ),
    Method("admin_query_booked_csmctrl_groups", "The groups that have such records.", False, _FIND, _query_groups),
    Method(
        "admin_add_group_csmctrl_info",
        "Add a record for every pair; consuming is on and filtering off by default.",
        True,
        (*ADD_LISTS, *_VALUES),
        _add,
    ),
    Method(
        "admin_batch_add_group_csmctrl_info",
        "Add records.",
        True,
        (*OPS_ADD, _CSM_SET),
        _add_many,
        aliases=("admin_bath_add_group_csmctrl_info",),
    ),
    Method("admin_update_group_csmctrl_info", "Change records.", True, (*UPD_LISTS, *_VALUES), _update),
    Method(
        "admin_batch_update_group_csmctrl_info",
        "Change records.",
        True,
        (*OPS_UPD, _CSM_SET),
        _update_many,
        aliases=("admin_bath_update_group_csmctrl_info",),
    ),
    Method(
        "admin_delete_group_csmctrl_info",
        "Delete the records of groups; without `topicName` for all topics.",
        True,
        (*OPS_UPD, GROUPS_NEEDED, TOPICS),
        _delete,
    ),
    Method(
        "admin_batch_delete_group_csmctrl_info",
        "Delete records.",
        True,
        (*OPS_UPD, json_set("groupCsmJsonSet", *PAIR)),
        _delete_many,
        aliases=("admin_bath_delete_group_csmctrl_info",),
    ),
)
