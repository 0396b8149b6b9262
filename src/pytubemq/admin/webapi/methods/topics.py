"""Methods about the deployments of topics on Brokers: queries, and changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from pytubemq.admin.webapi.envelope import Reply, outcomes, rows
from pytubemq.admin.webapi.kinds import TOPIC, Bool, Int, ListOf
from pytubemq.admin.webapi.long_responses import Turns
from pytubemq.admin.webapi.method import Method, change
from pytubemq.admin.webapi.methods.brokers import BROKER_ID
from pytubemq.admin.webapi.methods.cluster import PORT
from pytubemq.admin.webapi.methods.topic_control import auth_data, consume_shown, consumes_of, control_shown
from pytubemq.admin.webapi.params import OPS_ADD, OPS_UPD, PROPS, Args, Param, filters, json_set
from pytubemq.admin.webapi.topic_views import NOTHING, Totals, place, places, running_places, topic_totals, topics_of
from pytubemq.master.registry.topics import DeploySpec
from pytubemq.model.ids import UNDEFINED
from pytubemq.model.limits import MIB

if TYPE_CHECKING:
    from pytubemq.master.registry.audit import Audit
    from pytubemq.master.registry.outcome import Outcome
    from pytubemq.master.registry.topics import TopicRegistry
    from pytubemq.master.service import MasterService

PLACE_KEYS = ("brokerId", "topicName")

_TOPICS = Param("topicName", ListOf(TOPIC))
_BROKERS = Param("brokerId", ListOf(BROKER_ID))
_TOPICS_NEEDED = Param("topicName", ListOf(TOPIC), required=True)
_BROKERS_NEEDED = Param("brokerId", ListOf(BROKER_ID), required=True)
_PAIR = (Param("topicName", TOPIC, required=True), Param("brokerId", BROKER_ID, required=True))
_FIND = filters(_TOPICS, _BROKERS, Param("brokerPort", PORT), *PROPS, Param("topicStatusId", Int(UNDEFINED, 3)))


# --- queries --------------------------------------------------------------------------------------------


async def _query_places(master: MasterService, args: Args) -> Reply:
    found, turns = [], Turns()
    for topic in topics_of(master, args):
        listed = list(places(master, args, topic))
        if listed:
            record = master.catalogue.topics[topic]
            shown = {
                "topicName": topic,
                "maxMsgSizeInMB": record.max_message_bytes // MIB,
                **running_places(master, listed, "topicInfo"),
            }
            found.append({**shown, "authData": await auth_data(master, record, args, turns)})
        await turns.took(1 + len(listed))
    return rows(found)


async def _query_places_new(master: MasterService, args: Args) -> Reply:
    found, turns = [], Turns()
    for topic in topics_of(master, args):
        listed = list(places(master, args, topic))
        if listed:
            shown = {**control_shown(master.catalogue.topics[topic]), **running_places(master, listed, "deployInfo")}
            if args["withGroupAuthInfo"]:
                groups = await turns.all(consume_shown(record) for record in consumes_of(master, topic, args))
                shown |= {"groupAuthInfo": groups, "groupAuthCount": len(groups)}
            found.append(shown)
        await turns.took(1 + len(listed))
    return rows(found)


async def _query_place_records(master: MasterService, args: Args) -> Reply:
    found, turns = [], Turns()
    for topic in topics_of(master, args):
        listed = [place(master, deploy) for deploy in places(master, args, topic)]
        found += listed
        await turns.took(1 + len(listed))
    return rows(found)


async def _broker_sums(master: MasterService, args: Args) -> Reply:
    catalogue, topics = master.catalogue, args.get("topicName", ())
    found, turns = [], Turns()
    for broker_id, record in sorted(catalogue.brokers.items()):
        if args.given("brokerId") and broker_id not in args["brokerId"]:
            continue
        run = master.broker_room.runs.get(broker_id)
        totals = Totals.of(
            master, (deploy for deploy in catalogue.deployed_on(broker_id) if not topics or deploy.topic in topics)
        )
        found.append(
            {
                "brokerId": broker_id,
                "brokerIp": record.address.host,
                "brokerPort": record.address.port,
                "manageStatus": record.manage_status.text,
                "acceptPublish": totals.publish.places > 0,
                "acceptSubscribe": totals.subscribe.places > 0,
                "nodeRunInfo": NOTHING if run is None else "running",
                "topicTotalCfgCnt": totals.places,
                "storeTotalCfgCnt": totals.stores,
                "partTotalCfgCnt": totals.partitions,
                **_usable(totals, "topic"),
            }
        )
        await turns.took(1 + totals.places)
    return rows(found)


async def _topic_sums(master: MasterService, args: Args) -> Reply:
    return rows(
        [
            {
                "topicName": topic,
                "brokerTotalCfgCnt": totals.places,
                "brokerTotalRunCnt": totals.run_places,
                "storeTotalCfgCnt": totals.stores,
                "storeTotalRunCnt": totals.run_stores,
                "partTotalCfgCnt": totals.partitions,
                "partTotalRunCnt": totals.run_partitions,
                **_usable(totals, "broker"),
                "topicSrvAccPubStatus": totals.publish.places > 0,
                "topicSrvAccSubStatus": totals.subscribe.places > 0,
                "enableAuthControl": master.catalogue.topics[topic].enable_auth_control,
            }
            async for topic, totals in topic_totals(master, args)
        ]
    )


def _usable(totals: Totals, places_name: str) -> dict[str, int]:
    """Return the sums that producers and consumers may use, of a Broker's topics or of a topic's Brokers."""
    return {
        f"{places_name}AccPubTotalCnt": totals.publish.places,
        f"{places_name}AccSubTotalCnt": totals.subscribe.places,
        "storeAccPubTotalCnt": totals.publish.stores,
        "storeAccSubTotalCnt": totals.subscribe.stores,
        "partAccPubTotalCnt": totals.publish.partitions,
        "partAccSubTotalCnt": totals.subscribe.partitions,
    }


async def _topics_of_brokers(master: MasterService, args: Args) -> Reply:
    found = []
    for broker_id in args.get("brokerId", ()) or sorted(master.catalogue.brokers):
        topics = [deploy.topic for deploy in master.catalogue.deployed_on(broker_id)]
        found.append({"brokerId": broker_id, "topicName": topics, "topicCount": len(topics)})
    return rows(found)


async def _brokers_of_topics(master: MasterService, args: Args) -> Reply:
    catalogue = master.catalogue
    found = []
    for topic in topics_of(master, args):
        ids = sorted(catalogue.deployed(topic))
        if not ids and not args.given("topicName"):
            continue
        with_ip = [{"brokerId": broker_id, "brokerIp": catalogue.brokers[broker_id].address.host} for broker_id in ids]
        found.append({"topicName": topic, "brokerInfo": with_ip if args["withIp"] else ids, "brokerCnt": len(ids)})
    return rows(found)


# --- changes ----------------------------------------------------------------------------------------------------

_PlaceChange = Callable[["TopicRegistry", list[tuple[DeploySpec, "Audit"]]], Awaitable[list["Outcome"]]]


def _places(change: _PlaceChange) -> Callable[[MasterService, Args], Awaitable[Reply]]:
    async def run(master: MasterService, args: Args) -> Reply:
        specs = [
            (DeploySpec(topic, broker_id, args.props()), args.audit)
            for topic, broker_id in args.pairs("topicName", "brokerId")
        ]
        return outcomes(await change(master.registry.topics, specs), PLACE_KEYS)

    return run


def _place_set(change: _PlaceChange) -> Callable[[MasterService, Args], Awaitable[Reply]]:
    async def run(master: MasterService, args: Args) -> Reply:
        specs = [
            (DeploySpec(item["topicName"], item["brokerId"], item.props()), item.audit)
            for item in args.items("topicJsonSet")
        ]
        return outcomes(await change(master.registry.topics, specs), PLACE_KEYS)

    return run


def _query(name: str, about: str, params: tuple[Param, ...], run: Any) -> Method[MasterService]:
    return Method(name, about, False, params, run)


_PAIRS_UPD = (*OPS_UPD, _TOPICS_NEEDED, _BROKERS_NEEDED)

METHODS: tuple[Method[MasterService], ...] = (
    _query(
        "admin_query_topic_info",
        "Topics with their placements on Brokers, their state there, and who may consume them.",
        _FIND,
        _query_places,
    ),
    _query(
        "admin_query_topic_deploy_info",
        "Topics with their records, their placements on Brokers and their state there.",
        (*_FIND, Param("withGroupAuthInfo", Bool(), default=False)),
        _query_places_new,
    ),
    _query(
        "admin_query_topic_deploy_configure", "Topics' placements on Brokers, one by one.", _FIND, _query_place_records
    ),
    _query(
        "admin_query_broker_topic_config_info",
        "How many topics, stores and partitions each Broker has, and how many may be used.",
        (_TOPICS, _BROKERS),
        _broker_sums,
    ),
    _query(
        "admin_query_topic_broker_config_info",
        "How many Brokers, stores and partitions each topic has, and how many may be used.",
        (_TOPICS, _BROKERS),
        _topic_sums,
    ),
    _query("admin_query_deployed_topics", "The names of the topics on each Broker.", (_BROKERS,), _topics_of_brokers),
    _query(
        "admin_query_deployed_broker_ids",
        "The Brokers that each topic is on.",
        (_TOPICS, Param("withIp", Bool(), default=False)),
        _brokers_of_topics,
    ),
    change(
        "admin_add_topic_deploy_info",
        "Put topics on Brokers, every topic on every Broker; a new topic gets its record.",
        (*OPS_ADD, _TOPICS_NEEDED, _BROKERS_NEEDED, *PROPS),
        _places(lambda topics, specs: topics.deploy(specs)),
        ("admin_add_new_topic_record",),
    ),
    change(
        "admin_batch_add_topic_deploy_info",
        "Put topics on Brokers, each with its own values.",
        (*OPS_ADD, json_set("topicJsonSet", *_PAIR, *PROPS)),
        _place_set(lambda topics, specs: topics.deploy(specs)),
        ("admin_bath_add_topic_deploy_info", "admin_bath_add_new_topic_record", "admin_batch_add_new_topic_record"),
    ),
    change(
        "admin_update_topic_deploy_info",
        "Change topics on Brokers; partitions and stores can only become more.",
        (*_PAIRS_UPD, *PROPS),
        _places(lambda topics, specs: topics.update_deploy(specs)),
        ("admin_modify_topic_info",),
    ),
    change(
        "admin_batch_update_topic_deploy_info",
        "Change topics on Brokers, each with its own values.",
        (*OPS_UPD, json_set("topicJsonSet", *_PAIR, *PROPS)),
        _place_set(lambda topics, specs: topics.update_deploy(specs)),
        ("admin_bath_update_topic_deploy_info",),
    ),
    change(
        "admin_delete_topic_deploy_info",
        "Take topics off Brokers softly, once they accept neither producers nor consumers; their data stays.",
        _PAIRS_UPD,
        _places(lambda topics, specs: topics.soft_delete(specs)),
        ("admin_delete_topic_info",),
    ),
    change(
        "admin_redo_deleted_topic_deploy_info",
        "Restore placements that were soft-deleted.",
        _PAIRS_UPD,
        _places(lambda topics, specs: topics.restore(specs)),
        ("admin_redo_deleted_topic_info",),
    ),
    change(
        "admin_remove_topic_deploy_info",
        "Remove soft-deleted placements with their data; the record is deleted once the Broker has done so.",
        _PAIRS_UPD,
        _places(lambda topics, specs: topics.remove(specs)),
        ("admin_remove_topic_info",),
    ),
)
