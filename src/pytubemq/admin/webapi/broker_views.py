"""Brokers as the API shows them: their records and their states.

The names and texts are the original's. Its state machine waits between its steps; here a change is sent at once, so
only the steps that wait for the Broker are seen.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from pytubemq.admin.webapi.envelope import base, props
from pytubemq.model.records import ManageStatus

if TYPE_CHECKING:
    from pytubemq.master.brokers.broker_run import BrokerRun
    from pytubemq.master.service import MasterService
    from pytubemq.model.records import BrokerRecord

NOTHING = "-"


class StepOp(IntEnum):
    """The step that a Broker is at; the original's numbers."""

    IDLE = -2
    WAIT_ONLINE = 2
    WAIT_SYNC = 3


def step_of(record: BrokerRecord, run: BrokerRun) -> StepOp:
    """Return the step that a registered Broker has still to do; offline, only one that it was already sent."""
    if not run.online:
        return StepOp.WAIT_ONLINE
    given = record.manage_status is not ManageStatus.OFFLINE or run.pushed == run.conf.sync_id
    return StepOp.WAIT_SYNC if given and not run.in_sync else StepOp.IDLE


def is_changed(record: BrokerRecord, run: BrokerRun) -> bool:
    """True if a registered Broker has not confirmed its configuration as it is now.

    As in the original, that includes its manage status, until the first heartbeat after a change of it.
    """
    return not (run.online and run.in_sync) or run.manage_status not in (None, record.manage_status)


def record_shown(master: MasterService, record: BrokerRecord) -> dict[str, Any]:
    """Return a Broker's record; a property that it leaves to the cluster is shown as the cluster has it."""
    run = master.broker_room.runs.get(record.broker_id)
    return {
        "brokerId": record.broker_id,
        "brokerIp": record.address.host,
        "brokerPort": record.address.port,
        "brokerTLSPort": record.tls_port,
        "brokerWebPort": record.web_port,
        "manageStatus": record.manage_status.text,
        "isConfChanged": run is not None and is_changed(record, run),
        "isConfLoaded": run is not None and not is_changed(record, run),
        "regionId": record.region_id,
        "groupId": record.group_id,
        **props(master.catalogue.broker_props(record.broker_id)),
        **base(record.stamp),
    }


def run_shown(master: MasterService, record: BrokerRecord, *, detail: bool) -> dict[str, Any]:
    """Return a Broker's state. A field without a value is `-`."""
    room = master.broker_room
    run = room.runs.get(record.broker_id)
    abnormal = room.faults.abnormal.get(record.broker_id)
    reported = 0 if run is None else run.read_status * 100 + run.write_status
    status = reported or (0 if abnormal is None else abnormal.value)
    return {
        "brokerId": record.broker_id,
        "brokerIp": record.address.host,
        "brokerPort": record.address.port,
        "brokerWebPort": record.web_port,
        "manageStatus": record.manage_status.text,
        "brokerTLSPort": record.tls_port,
        "enableTLS": NOTHING if run is None else run.over_tls,
        "isRepAbnormal": status != 0,
        **({"repStatus": status} if status else {}),
        "isAutoForbidden": record.broker_id in room.faults.forbidden,
        **_state(record, run),
        **({"BrokerRunStatusInfo": _detail(record, run)} if detail and run is not None else {}),
    }


def _state(record: BrokerRecord, run: BrokerRun | None) -> dict[str, Any]:
    if run is None or record.manage_status is ManageStatus.DRAFT:
        names = ("subStatus", "isConfChanged", "isConfLoaded", "isBrokerOnline", "brokerVersion")
        draft = record.manage_status is ManageStatus.DRAFT
        return {
            "runStatus": NOTHING if draft else "unRegister",
            **dict.fromkeys((*names, "acceptPublish", "acceptSubscribe"), NOTHING),
        }
    step, changed = step_of(record, run), is_changed(record, run)
    idle = step is StepOp.IDLE
    return {
        "runStatus": "running" if run.online else "notRegister",
        "subStatus": "idle" if idle else "processing_event",
        **({} if idle else {"stepOp": int(step)}),
        "isConfChanged": _text(changed),
        "isConfLoaded": _text(not changed),
        "isBrokerOnline": _text(run.online),
        "brokerVersion": run.version or NOTHING,
        "acceptPublish": _text(record.manage_status.publishes),
        "acceptSubscribe": _text(record.manage_status.subscribes),
    }


def _detail(record: BrokerRecord, run: BrokerRun) -> dict[str, Any]:
    step, changed = step_of(record, run), is_changed(record, run)
    idle = step is StepOp.IDLE
    brief = f"{run.broker_id}:{run.address}"
    topics = {
        name: f"{brief}#{name}:{topic.partitions}:{_text(topic.accept_publish)}:{_text(topic.accept_subscribe)}"
        f":{topic.stores}"
        for name, topic in sorted(run.topics.items())
    }
    return {
        "type": "BrokerRunStatusInfo",
        "brokerInfo": brief,
        "createId": str(run.since_ms),
        "isConfChanged": changed,
        "isConfLoaded": not changed,
        "confChangeNo": run.conf.sync_id.conf_id,
        "curStepStatus": step.name.lower(),
        "nextStepOpTimeInMills": 0,
        "confLoadedNo": run.reported.conf_id,
        "isOnline": run.online,
        "isDoneDataLoad": run.online,
        "isDoneDataSub": idle,
        "isDoneDataPub": idle,
        "isOverTLS": run.over_tls,
        "lastBrokerSyncTime": run.heard_ms,
        "maxConfLoadedTimeInMs": 0,
        "curConfLoadTimeInMs": 0,
        "BrokerSyncData": {
            "dataPushId": run.conf.sync_id.conf_id,
            "mngStatus": record.manage_status.text,
            "syncDownDataConfId": run.conf.sync_id.conf_id,
            "syncDownDataChkSumId": run.conf.sync_id.checksum,
            "isStatusChanged": run.manage_status not in (None, record.manage_status),
            "isConfChanged": changed,
            "syncDownBrokerConfInfo": run.conf.defaults,
            "syncDownTopicConfInfoMap": _map({text.partition(":")[0]: text for text in run.conf.topics}),
            "syncUpDataConfId": run.reported.conf_id,
            "syncUpDataChkSumId": run.reported.checksum,
            "syncUpBrokerConfInfo": run.reported_defaults,
            "syncUpTopicConfInfos": f"[{', '.join(run.reported_topics)}]",
            "syncUpTopicInfoMap": _map(topics),
            "lastDataUpTime": run.heard_ms,
        },
    }


def _map(entries: dict[str, str]) -> str:
    return "{" + ", ".join(f"{name}={value}" for name, value in entries.items()) + "}"


def _text(value: bool) -> str:
    return "true" if value else "false"
