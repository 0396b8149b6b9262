"""Messages that retention removed before a group had confirmed them: counted, and logged at a bounded rate.

The invariant: a group that reads never skips expired messages without a count and a log line, and a group's log lines
about a topic are at least LOG_PERIOD_S apart, however many partitions it reads. The loss of a group without a consumer
is counted when a consumer returns. Event loop only.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.observe.metrics import OTHER

if TYPE_CHECKING:
    from pytubemq.broker.registration_key import RegistrationKey

logger = logging.getLogger(__name__)

LOG_PERIOD_S: Final = 60.0
MAX_GROUPS_COUNTED: Final = 10_000
"""Pairs of group and topic with a counter of their own; all further pairs share the counter OTHER."""
_MOST_LINES: Final = 8
"""Groups that one call of `log_due` names; one more line counts the others."""
_ADVICE: Final = "it continues at the first message that is kept; raise the topic's retention, or add consumers"


@dataclass(slots=True)
class _Loss:
    """One group's expired messages in one topic."""

    messages: int = 0
    unlogged: int = 0
    logged_s: float = float("-inf")


class ExpiredMessages:
    """Counters of expired messages by group and topic, since the Broker's start."""

    def __init__(self) -> None:
        self.total = 0
        self._losses: dict[tuple[str, str], _Loss] = {}

    def record(self, key: RegistrationKey, messages: int, *, now_s: float) -> None:
        """Count messages that a consumer skips; log them unless the group was logged within LOG_PERIOD_S."""
        self.total += messages
        name = key.group, key.topic
        loss = self._losses.get(name)
        if loss is None:
            if len(self._losses) >= MAX_GROUPS_COUNTED:
                name = OTHER, OTHER
            loss = self._losses.setdefault(name, _Loss())
        loss.messages += messages
        loss.unlogged += messages
        if now_s - loss.logged_s >= LOG_PERIOD_S:
            self._log(name, loss, now_s)

    def log_due(self, now_s: float) -> None:
        """Log the messages counted since each group's last line."""
        due = [
            (name, loss)
            for name, loss in self._losses.items()
            if loss.unlogged and now_s - loss.logged_s >= LOG_PERIOD_S
        ]
        for name, loss in due[:_MOST_LINES]:
            self._log(name, loss, now_s)
        rest = due[_MOST_LINES:]
        if rest:
            logger.warning(
                "retention removed %d more messages that %d other groups had not confirmed",
                sum(loss.unlogged for _, loss in rest), len(rest),
            )  # fmt: skip
        for _, loss in rest:
            loss.unlogged, loss.logged_s = 0, now_s

    def by_group(self) -> dict[tuple[str, str], int]:
        """Return the messages lost so far by group and topic."""
        return {name: loss.messages for name, loss in self._losses.items()}

    def _log(self, name: tuple[str, str], loss: _Loss, now_s: float) -> None:
        logger.warning(
            "group %s: retention removed %d messages of topic %s before the group had confirmed them; %s",
            name[0], loss.unlogged, name[1], _ADVICE,
        )  # fmt: skip
        loss.unlogged, loss.logged_s = 0, now_s
