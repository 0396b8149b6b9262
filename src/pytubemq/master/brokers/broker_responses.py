"""Responses to Brokers, field by field."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import Code
from pytubemq.master import responses
from pytubemq.model.ids import UNDEFINED
from pytubemq.wire.protocol.messages.master import (
    HeartRequestB2M,
    HeartResponseM2B,
    RegisterRequestB2M,
    RegisterResponseM2B,
)

if TYPE_CHECKING:
    from pytubemq.master.access.broker_access import BrokerChecks
    from pytubemq.master.access.tokens import Tokens
    from pytubemq.master.brokers.broker_faults import BrokerFaults
    from pytubemq.master.brokers.broker_run import BrokerRun
    from pytubemq.master.catalogue.catalogue import Catalogue


class BrokerResponses:
    """The builder of responses; `push` includes the configuration itself, not only its id."""

    def __init__(self, catalogue: Catalogue, faults: BrokerFaults, tokens: Tokens, checks: BrokerChecks) -> None:
        self._catalogue = catalogue
        self._faults = faults
        self._tokens = tokens
        self._checks = checks

    def news(self, run: BrokerRun) -> object:
        """Return the parts of a response other than the configuration; a change of them ends a Broker's wait.

        Its manage status is part of it, so that its next heartbeat, which confirms that, comes at once.
        """
        record = self._catalogue.brokers.get(run.broker_id)
        status = None if record is None else record.manage_status
        stops = self._faults.stops(run.broker_id)
        return (self._catalogue.cluster.stamp.serial_id, run.conf.removed, stops, status, self._checks.version)

    def heartbeat(self, run: BrokerRun, request: HeartRequestB2M, *, push: bool) -> HeartResponseM2B:
        """Return the response to an accepted heartbeat."""
        cluster = self._catalogue.cluster
        stop_read, stop_write = self._faults.stops(run.broker_id)
        flow_asked = request.flow_check_id is not None and not run.unknown
        nothing = None if run.unknown else UNDEFINED
        return HeartResponseM2B(
            success=True,
            err_code=Code.SUCCESS,
            err_msg=responses.OK,
            stop_read=stop_read,
            stop_write=stop_write,
            cur_broker_conf_id=run.conf.sync_id.conf_id,
            conf_check_sum_id=run.conf.sync_id.checksum,
            need_report_data=push,
            take_conf_info=push,
            take_remove_topic_info=not run.unknown,
            broker_default_conf_info=run.conf.defaults if push else None,
            broker_topic_set_conf_info=run.conf.topics if push else (),
            topic_durability=run.conf.durability if push else (),
            topic_retention=run.conf.retention if push else (),
            remove_topic_conf_info=() if run.unknown else run.conf.removed,
            ssd_store_id=UNDEFINED,
            flow_check_id=cluster.stamp.serial_id if flow_asked else nothing,
            flow_control_info=self._rules(request.flow_check_id) if flow_asked else None,
            qry_priority_id=cluster.qry_priority_id if flow_asked else nothing,
            authorized_info=self._tokens.of_deprecated(),
            broker_authorized_info=self._tokens.of_brokers(),
            access=self._checks.access(request.access_version),
            cls_config=None if run.unknown else responses.cluster_config(cluster, request.cls_config),
        )

    def registration(self, run: BrokerRun, request: RegisterRequestB2M, *, push: bool) -> RegisterResponseM2B:
        """Return the response to an accepted registration."""
        cluster = self._catalogue.cluster
        stop_read, stop_write = self._faults.stops(run.broker_id)
        flow_asked = request.flow_check_id is not None and not run.unknown
        return RegisterResponseM2B(
            success=True,
            err_code=Code.SUCCESS,
            err_msg=responses.OK,
            stop_read=stop_read,
            stop_write=stop_write,
            take_conf_info=push,
            enable_broker_info=self._checks.switches(knows_access=request.access_version is not None),
            cur_broker_conf_id=run.conf.sync_id.conf_id,
            conf_check_sum_id=run.conf.sync_id.checksum,
            broker_default_conf_info=run.conf.defaults if push else None,
            broker_topic_set_conf_info=run.conf.topics if push else (),
            topic_durability=run.conf.durability if push else (),
            topic_retention=run.conf.retention if push else (),
            ssd_store_id=UNDEFINED,
            flow_check_id=cluster.stamp.serial_id if flow_asked else None,
            flow_control_info=self._rules(request.flow_check_id) if flow_asked else None,
            qry_priority_id=cluster.qry_priority_id if flow_asked else None,
            authorized_info=self._tokens.of_deprecated(),
            broker_authorized_info=self._tokens.of_brokers(),
            access=self._checks.access(request.access_version),
            cls_config=None if run.unknown else responses.cluster_config(cluster, request.cls_config),
        )

    def _rules(self, known: int | None) -> str | None:
        """Return the flow-control rules if the Broker does not have them yet; blank while they are off."""
        cluster = self._catalogue.cluster
        if known is None or known == cluster.stamp.serial_id:
            return None
        return cluster.flow_ctrl_info if cluster.flow_ctrl_enable else responses.UNCHANGED


def refused_heartbeat(code: int, text: str) -> HeartResponseM2B:
    """Return a heartbeat's response with a code other than 200, with all fields that the original sends then."""
    return HeartResponseM2B(
        success=False,
        err_code=code,
        err_msg=text,
        stop_read=False,
        stop_write=False,
        cur_broker_conf_id=UNDEFINED,
        conf_check_sum_id=UNDEFINED,
        need_report_data=True,
        take_conf_info=False,
        take_remove_topic_info=False,
        flow_check_id=UNDEFINED,
        qry_priority_id=UNDEFINED,
    )
