"""Flow-control rules in responses to consumers: the cluster's, and their group's.

Rules have an id, the serial id of their record; a consumer sends the ids that it has, and is sent the rules only where
they differ. -2 means none. The fields and their conditions are the original's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pytubemq.master.responses import NO_FLOW_CONTROL, UNCHANGED
from pytubemq.model.ids import UNDEFINED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.wire.protocol.messages.master import OpsTaskInfo


class FlowIds(NamedTuple):
    """The rules in force: the cluster's and a group's; -2 = none."""

    default: int
    group: int


class FlowResponses:
    """The flow-control fields of responses, by the records of the cluster and of groups."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def ids(self, group: str) -> FlowIds:
        """Return the ids of a group's rules; they change whenever there is something to send."""
        cluster, record = self._catalogue.cluster, self._catalogue.groups.get(group)
        return FlowIds(
            cluster.stamp.serial_id if cluster.flow_ctrl_enable else UNDEFINED,
            record.stamp.serial_id if record is not None and record.flow_ctrl_enable else UNDEFINED,
        )

    def consumer_fields(
        self, group: str, def_flow_check_id: int | None, group_flow_check_id: int | None
    ) -> Mapping[str, Any]:
        """Return the fields for a server-balanced consumer; none if it does not request them."""
        if def_flow_check_id is None and group_flow_check_id is None:
            return {}
        ids = self.ids(group)
        return {
            **NO_FLOW_CONTROL,
            "def_flow_check_id": ids.default,
            "def_flow_control_info": self._default_rules(ids, def_flow_check_id),
            "group_flow_check_id": ids.group,
            "group_flow_control_info": self._group_rules(group, ids, group_flow_check_id),
            "qry_priority_id": self._priority(group, ids),
        }

    def ops_task(self, group: str, reported: OpsTaskInfo | None) -> Mapping[str, Any]:
        """Return the fields for a client-balanced consumer.

        Rules that are switched off are left out, as the original does, unless the consumer still has some: those are
        withdrawn with -2.
        """
        had_default, had_group = (
            (None, None) if reported is None else (reported.def_flow_check_id, reported.group_flow_check_id)
        )
        ids = self.ids(group)
        fields: dict[str, Any] = {}
        if ids.default != UNDEFINED or (had_default or 0) > 0:
            fields["def_flow_check_id"] = ids.default
            if ids.default != had_default:
                fields["def_flow_control_info"] = self._default_rules(ids, had_default)
        if ids.group != UNDEFINED or (had_group or 0) > 0:
            fields["group_flow_check_id"] = ids.group
            if ids.group != had_group:
                fields["group_flow_control_info"] = self._group_rules(group, ids, had_group)
            fields["qry_priority_id"] = self._priority(group, ids)
        return fields

    def _default_rules(self, ids: FlowIds, had: int | None) -> str:
        return UNCHANGED if ids.default in (UNDEFINED, had) else self._catalogue.cluster.flow_ctrl_info

    def _group_rules(self, group: str, ids: FlowIds, had: int | None) -> str:
        return UNCHANGED if ids.group in (UNDEFINED, had) else self._catalogue.groups[group].flow_ctrl_info

    def _priority(self, group: str, ids: FlowIds) -> int:
        return UNDEFINED if ids.group == UNDEFINED else self._catalogue.groups[group].qry_priority_id
