"""Methods about Brokers: their records and states, and bringing them online and offline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.admin.webapi.broker_views import record_shown, run_shown
from pytubemq.admin.webapi.envelope import Reply, outcomes, rows, success
from pytubemq.admin.webapi.kinds import MANAGE_STATUS, REASON, TOPIC, Bool, Int, IPv4, ListOf
from pytubemq.admin.webapi.long_responses import Turns
from pytubemq.admin.webapi.method import Method, change
from pytubemq.admin.webapi.methods.cluster import PORT
from pytubemq.admin.webapi.params import OPS_ADD, OPS_UPD, PROPS, Args, CallError, Param, filters, has_stamp, json_set
from pytubemq.admin.webapi.topic_views import has_props, place
from pytubemq.master.registry.brokers import BrokerSpec
from pytubemq.model.ids import UNDEFINED
from pytubemq.model.records import ManageStatus

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytubemq.master.service import MasterService
    from pytubemq.model.records import BrokerRecord, DeployRecord

KEYS = ("brokerId", "brokerIp")
BROKER_ID = Int(0)

_BROKERS = Param("brokerId", ListOf(BROKER_ID))
_BROKERS_NEEDED = Param("brokerId", ListOf(BROKER_ID), required=True)
_HOSTS = Param("brokerIp", ListOf(IPv4()))
_PORTS = (Param("brokerPort", PORT), Param("brokerTLSPort", PORT), Param("brokerWebPort", PORT))
_PLACE = (Param("regionId", Int(0)), Param("groupId", Int(0)))
_STATUS = Param("manageStatus", MANAGE_STATUS)
_VALUES = (*_PORTS, *_PLACE, *PROPS, _STATUS)
_NEW = (Param("brokerIp", IPv4(), required=True), Param("brokerId", BROKER_ID), *_VALUES)


# --- queries ----------------------------------------------------------------------------------------------------


async def _query(master: MasterService, args: Args) -> Reply:
    found, turns = [], Turns()
    for record in _named(master, args):
        if not _asked_for(master, record, args):
            continue
        shown = record_shown(master, record)
        if args["withTopic"]:
            shown["topicSet"] = [place(master, deploy) for deploy in _asked_places(master, record, args)]
            await turns.took(len(shown["topicSet"]))
        found.append(shown)
    return rows(found)


def _asked_for(master: MasterService, record: BrokerRecord, args: Args) -> bool:
    exact = (
        ("brokerPort", record.address.port),
        ("brokerTLSPort", record.tls_port),
        ("brokerWebPort", record.web_port),
        ("regionId", record.region_id),
        ("groupId", record.group_id),
        ("manageStatus", record.manage_status),
    )
    if not all(args.get(name) in (None, value) for name, value in exact):
        return False
    if not has_stamp(record.stamp, args) or not has_props(master.catalogue.broker_props(record.broker_id), args):
        return False
    if args.get("topicStatusId", UNDEFINED) == UNDEFINED and not args.given("topicName"):
        return True
    there = any(
        (not args.given("topicName") or deploy.topic in args["topicName"])
        and args.get("topicStatusId", UNDEFINED) in (UNDEFINED, deploy.topic_status)
        for deploy in master.catalogue.deployed_on(record.broker_id)
    )
    return there if args["isInclude"] else not there


def _asked_places(master: MasterService, record: BrokerRecord, args: Args) -> list[DeployRecord]:
    """Return the topics of a Broker that a query names; all where it leaves out Brokers that have some."""
    deploys = master.catalogue.deployed_on(record.broker_id)
    topics = args.get("topicName", ()) if args["isInclude"] else ()
    status = args.get("topicStatusId", UNDEFINED)
    return [
        deploy
        for deploy in deploys
        if (not topics or deploy.topic in topics) and status in (UNDEFINED, deploy.topic_status)
    ]


async def _query_run(master: MasterService, args: Args) -> Reply:
    room = master.broker_room
    found = []
    for record in _named(master, args):
        run = room.runs.get(record.broker_id)
        if (
            (not args["onlyAbnormal"] or record.broker_id in room.faults.abnormal)
            and (not args["onlyAutoForbidden"] or record.broker_id in room.faults.forbidden)
            and (not args["onlyEnableTLS"] or (run is not None and run.over_tls))
        ):
            found.append(run_shown(master, record, detail=args["withDetail"]))
    return rows(found)


def _named(master: MasterService, args: Args) -> list[BrokerRecord]:
    ids, hosts = args.get("brokerId", ()), args.get("brokerIp", ())
    return [
        record
        for broker_id, record in sorted(master.catalogue.brokers.items())
        if (not ids or broker_id in ids) and (not hosts or record.address.host in hosts)
    ]


# --- changes ----------------------------------------------------------------------------------------------------


def _spec(args: Args, broker_id: int | None = None) -> BrokerSpec:
    own_id = args.get("brokerId", 0) if broker_id is None else broker_id
    return BrokerSpec(
        broker_id=own_id if own_id > 0 else None,
        host=args.get("brokerIp", ""),
        port=args.get("brokerPort"),
        tls_port=args.get("brokerTLSPort"),
        web_port=args.get("brokerWebPort"),
        region_id=args.get("regionId"),
        group_id=args.get("groupId"),
        manage_status=args.get("manageStatus"),
        props=args.props(),
    )


async def _add(master: MasterService, args: Args) -> Reply:
    return outcomes(await master.registry.brokers.add([(_spec(args), args.audit)]), KEYS)


async def _add_set(master: MasterService, args: Args) -> Reply:
    specs = [(_spec(item), item.audit) for item in args.items("brokerJsonSet")]
    return outcomes(await master.registry.brokers.add(specs), KEYS)


async def _update(master: MasterService, args: Args) -> Reply:
    specs = [(_spec(args, broker_id), args.audit) for broker_id in args["brokerId"]]
    return outcomes(await master.registry.brokers.update(specs), KEYS)


async def _update_set(master: MasterService, args: Args) -> Reply:
    specs = [(_spec(item), item.audit) for item in args.items("brokerJsonSet")]
    return outcomes(await master.registry.brokers.update(specs), KEYS)


def _set_status(status: ManageStatus) -> Callable[[MasterService, Args], Awaitable[Reply]]:
    async def run(master: MasterService, args: Args) -> Reply:
        return outcomes(await master.registry.brokers.set_status(args["brokerId"], status, by=args.audit), KEYS)

    return run


async def _reload(master: MasterService, args: Args) -> Reply:
    return outcomes(master.registry.brokers.reload(args["brokerId"]), KEYS)


async def _switch(master: MasterService, args: Args) -> Reply:
    if not args.given("acceptPublish") and not args.given("acceptSubscribe"):
        raise CallError("parameters acceptPublish and acceptSubscribe are missing: give one of them, or both")
    return outcomes(
        await master.registry.brokers.set_read_or_write(
            args["brokerId"], publish=args.get("acceptPublish"), subscribe=args.get("acceptSubscribe"), by=args.audit
        ),
        KEYS,
    )


async def _release(master: MasterService, args: Args) -> Reply:
    master.registry.brokers.release_forbidden(args["brokerId"])
    return success()


async def _delete(master: MasterService, args: Args) -> Reply:
    found = await master.registry.brokers.delete(args["brokerId"], with_topics=args["isReservedData"])
    return outcomes(found, KEYS)


METHODS: tuple[Method[MasterService], ...] = (
    Method(
        "admin_query_broker_configure",
        "The records of Brokers, with `withTopic` also the topics on each.",
        False,
        filters(
            _BROKERS,
            _HOSTS,
            *_VALUES,
            Param("topicStatusId", Int(UNDEFINED, 3)),
            Param("topicName", ListOf(TOPIC)),
            Param("isInclude", Bool(), default=True),
            Param("withTopic", Bool(), default=False),
        ),
        _query,
    ),
    Method(
        "admin_query_broker_run_status",
        "The states of Brokers.",
        False,
        (
            _BROKERS,
            _HOSTS,
            *(
                Param(name, Bool(), default=False)
                for name in ("withDetail", "onlyAbnormal", "onlyAutoForbidden", "onlyEnableTLS")
            ),
        ),
        _query_run,
    ),
    change(
        "admin_add_broker_configure",
        "Add a Broker, as a draft unless `manageStatus` says otherwise. Several may have one IP, on different ports.",
        (*OPS_ADD, *_NEW),
        _add,
    ),
    change(
        "admin_batch_add_broker_configure",
        "Add several Brokers, all or none.",
        (*OPS_ADD, json_set("brokerJsonSet", *_NEW)),
        _add_set,
        ("admin_bath_add_broker_configure",),
    ),
    change(
        "admin_update_broker_configure",
        "Change Brokers; the IP stays.",
        (*OPS_UPD, _BROKERS_NEEDED, *_VALUES),
        _update,
    ),
    change(
        "admin_batch_update_broker_configure",
        "Change several Brokers, each with its own values.",
        (*OPS_UPD, json_set("brokerJsonSet", Param("brokerId", BROKER_ID, required=True), *_VALUES)),
        _update_set,
        ("admin_bath_update_broker_configure",),
    ),
    change(
        "admin_online_broker_configure",
        "Put Brokers online.",
        (*OPS_UPD, _BROKERS_NEEDED),
        _set_status(ManageStatus.ONLINE),
    ),
    change(
        "admin_offline_broker_configure",
        "Put Brokers offline: no client uses them any more.",
        (*OPS_UPD, _BROKERS_NEEDED),
        _set_status(ManageStatus.OFFLINE),
    ),
    change(
        "admin_reload_broker_configure",
        "Send Brokers their configuration again; changes of it are sent automatically.",
        (*OPS_UPD, _BROKERS_NEEDED),
        _reload,
    ),
    change(
        "admin_set_broker_read_or_write",
        "Allow or forbid writing to Brokers and reading from them.",
        (*OPS_UPD, _BROKERS_NEEDED, Param("acceptPublish", Bool()), Param("acceptSubscribe", Bool())),
        _switch,
    ),
    change(
        "admin_release_broker_autoforbidden_status",
        "Lift the restrictions that Brokers got for the faults they reported; their status stays.",
        (*OPS_UPD, _BROKERS_NEEDED, Param("relReason", REASON)),
        _release,
    ),
    change(
        "admin_delete_broker_configure",
        "Delete Brokers that are drafts or offline; with `isReservedData` also their topics' placements, but no files.",
        (*OPS_UPD, _BROKERS_NEEDED, Param("isReservedData", Bool(), default=False)),
        _delete,
    ),
)
