"""The flow-control rules of a consumer, as its Master sends them.

The invariant: the rules that the Master sent last are in force; rules that cannot be read leave the former ones in
force, are not requested again, and are logged.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from pytubemq.core.flow import format_rules
from pytubemq.core.throttle import NO_RULES, AnnouncedRules, RulesInForce
from pytubemq.errors import FormatError
from pytubemq.model.ids import UNDEFINED

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)


class FlowResponse(Protocol):
    """The flow-control fields of the Master's responses to consumers of both kinds."""

    @property
    def def_flow_check_id(self) -> int | None: ...
    @property
    def def_flow_control_info(self) -> str | None: ...
    @property
    def group_flow_check_id(self) -> int | None: ...
    @property
    def group_flow_control_info(self) -> str | None: ...
    @property
    def qry_priority_id(self) -> int | None: ...


class FlowControl:
    """The flow-control rules of one consumer."""

    def __init__(self, group: str, on_change: Callable[[], None]) -> None:
        """`on_change` is called when other rules come into force."""
        self.rules: RulesInForce = NO_RULES
        self.priority = UNDEFINED
        """The group's query priority, which requests to Brokers carry."""
        self.changes = 0
        """Number of changes of the rules."""
        self._name = group
        self._on_change = on_change
        self._group = AnnouncedRules()
        self._cluster = AnnouncedRules()

    @property
    def group_id(self) -> int:
        """The id of the group's rules in force, for the Master."""
        return self._group.check_id

    @property
    def default_id(self) -> int:
        """The id of the cluster's rules in force."""
        return self._cluster.check_id

    def update(self, response: FlowResponse) -> None:
        """Apply the rules of a Master's response."""
        group = self._read_rules(
            self._group, response.group_flow_check_id, response.group_flow_control_info, "the group's"
        )
        cluster = self._read_rules(
            self._cluster, response.def_flow_check_id, response.def_flow_control_info, "the cluster's"
        )
        if group.check_id != self._group.check_id:
            self.priority = UNDEFINED if response.qry_priority_id is None else response.qry_priority_id
        self._group, self._cluster = group, cluster
        rules = RulesInForce(group.rules, cluster.rules)
        if rules == self.rules:
            return
        self.rules = rules
        self.changes += 1
        logger.info(
            "group %s: flow-control rules changed: its own %s, the cluster's %s",
            self._name,
            format_rules(rules.group),
            format_rules(rules.cluster),
        )
        self._on_change()

    def _read_rules(self, known: AnnouncedRules, check_id: int | None, text: str | None, whose: str) -> AnnouncedRules:
        try:
            return known.after_response(check_id, text)
        except FormatError as error:
            logger.warning(
                "group %s: kept %s previous flow-control rules, the new ones are invalid: %s", self._name, whose, error
            )
            return known if check_id is None else AnnouncedRules(check_id, known.rules)
