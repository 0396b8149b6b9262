"""The flow-control rules that a consumer reads by, as its Master tells them.

The invariant: what is in force is what the Master told last; rules that cannot be read leave the former ones in force,
are asked for no second time, and are logged.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from pytubemq.core.flow import format_rules
from pytubemq.core.throttle import NO_RULES, RulesInForce, ToldRules
from pytubemq.errors import FormatError
from pytubemq.model.ids import UNDEFINED

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)


class FlowAnswer(Protocol):
    """The part of the Master's answers to consumers of both kinds that speaks of flow control."""

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


class Flow:
    """One consumer's rules."""

    def __init__(self, group: str, on_change: Callable[[], None]) -> None:
        """`on_change` is called when other rules come into force."""
        self.rules: RulesInForce = NO_RULES
        self.priority = UNDEFINED
        """The group's query priority; Brokers are told."""
        self.changes = 0
        """How often the rules have changed."""
        self._name = group
        self._on_change = on_change
        self._group = ToldRules()
        self._cluster = ToldRules()

    @property
    def group_id(self) -> int:
        """The number of the group's rules that we have, for the Master."""
        return self._group.check_id

    @property
    def default_id(self) -> int:
        """The number of the cluster's rules that we have."""
        return self._cluster.check_id

    def take(self, answer: FlowAnswer) -> None:
        """Bring into force what an answer of the Master says."""
        group = self._heard(self._group, answer.group_flow_check_id, answer.group_flow_control_info, "the group's")
        cluster = self._heard(self._cluster, answer.def_flow_check_id, answer.def_flow_control_info, "the cluster's")
        if group.check_id != self._group.check_id:
            self.priority = UNDEFINED if answer.qry_priority_id is None else answer.qry_priority_id
        self._group, self._cluster = group, cluster
        rules = RulesInForce(group.rules, cluster.rules)
        if rules == self.rules:
            return
        self.rules = rules
        self.changes += 1
        logger.info(
            "group %s reads by other rules now: its own %s, the cluster's %s",
            self._name,
            format_rules(rules.group),
            format_rules(rules.cluster),
        )
        self._on_change()

    def _heard(self, known: ToldRules, check_id: int | None, text: str | None, whose: str) -> ToldRules:
        try:
            return known.heard(check_id, text)
        except FormatError as error:
            logger.warning("group %s: %s flow-control rules are left as they were: %s", self._name, whose, error)
            return known if check_id is None else ToldRules(check_id, known.rules)
