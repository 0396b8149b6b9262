"""The problems of a Broker as texts.

The invariant: a problem that is named here exists now and is no longer named once it is over, except for problems that
only a restart ends, lost messages, which stay named until they would have expired anyway, and possible losses by a
repair, which stay named until its report is removed.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from pytubemq.errors import TubeError, one_line
from pytubemq.storage.log.survey import STOP_AND_REPAIR

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytubemq.broker.append.log_applier import LogApplier
    from pytubemq.broker.state import BrokerState
    from pytubemq.broker.upkeep.master_orders import MasterOrders
    from pytubemq.broker.upkeep.retention import RetentionPasses

LOOK_S: Final = 5.0
"""The time between two checks of all partitions; the Master gets the result several times a second."""
_MOST_NAMED: Final = 8
"""Partitions named at a time; the others are counted."""


class StoreTroubles:
    """The problems of single partitions: missing files, lost messages."""

    def __init__(self) -> None:
        self._found: tuple[str, ...] = ()
        self._look_s: float | None = None
        self._lost_texts = 0
        """Lost messages as of the last check; more of them are reported at once."""

    def problems(self, state: BrokerState) -> tuple[str, ...]:
        """Return the problems as of LOOK_S ago at most, lost messages as of now."""
        now_s, lost = state.clock.now_s(), state.store.stats.fenced_messages
        if self._look_s is None or now_s >= self._look_s or lost != self._lost_texts:
            self._look_s, self._lost_texts = now_s + LOOK_S, lost
            self._found = (*_list_some(_partitions(state)), *_lost_texts(state), *state.store.repair_notices())
        return self._found


def problems(
    state: BrokerState,
    *,
    faults: Mapping[str, str],
    workers_down: Iterable[str],
    troubles: StoreTroubles,
    applier: LogApplier | None,
    orders: MasterOrders | None,
    retention: RetentionPasses | None,
    shortage: str | None,
) -> list[str]:
    """Return all problems: `faults` are failed parts of the Broker, `shortage` says why there is no disk space."""
    errors = state.path.errors
    found = [*(f"{name}: {text}" for name, text in faults.items()), *workers_down, *state.read_faults.values()]
    if errors.fatal is not None:
        found.append(f"journal: {one_line(errors.fatal)}")
    if errors.fault is not None:
        found.append(f"writing: a fault of this program: {type(errors.fault).__name__}: {errors.fault}")
    if errors.full is not None:
        owed = state.store.owed_messages
        waiting = f"; {owed} messages that were promised from memory wait for space" if owed else ""
        found.append(f"disk full: {errors.full.message}{waiting}")
    elif shortage is not None and errors.fatal is None:
        found.append(f"disk full: {shortage}; sends are refused")
    if errors.unopened is not None:
        found.append(f"journal: {errors.unopened.message}")
    if applier is not None and applier.error is not None:
        found.append(f"partition logs: {one_line(applier.error)}")
    if state.store.lost_records is not None:
        found.append(f"journal: {state.store.lost_records}")
    found += troubles.problems(state)
    said = (
        orders.problem if orders is not None else None,
        orders.removal.problem if orders is not None else None,
        state.resets.problem,
        state.resets.loss,
        retention.problem if retention is not None else None,
    )
    found += [
        problem for problem in (*said, state.registry.problem, state.positions.spare.problem) if problem is not None
    ]
    if state.positions.full:
        found.append(
            f"group positions are full: {state.positions.most} are kept; a new one replaces one that no consumer "
            "has used, or is refused if there is none"
        )
    return found


def _partitions(state: BrokerState) -> Iterator[str]:
    """Yield partitions that cannot be read, or only in part, except for those that a reader has met already."""
    for served in state.topics:
        topic = served.config.name
        for partition_id in served.partition_ids:
            if (topic, partition_id) in state.read_faults:
                continue
            with contextlib.suppress(TubeError):
                problem = state.store.partition_problem(topic, partition_id)
                if problem is not None:
                    way_out = "" if STOP_AND_REPAIR in problem else f"; restore what is missing, or {STOP_AND_REPAIR}"
                    yield f"partition {topic}:{partition_id}: {problem}{way_out}"


def _list_some(texts: Iterator[str]) -> list[str]:
    found = list(texts)
    more = len(found) - _MOST_NAMED
    return [*found[:_MOST_NAMED], f"{more} more partitions cannot be read as a whole"] if more > 0 else found


def _lost_texts(state: BrokerState) -> list[str]:
    lost_ranges = state.store.lost_ranges()
    if not lost_ranges:
        return []
    first = lost_ranges[0]
    lost = sum(one.messages for one in lost_ranges)
    return [
        f"messages lost to damage: {lost}, in {len({one[:2] for one in lost_ranges})} partition(s), the first in "
        f"{first.topic}:{first.partition_id} at offset {first.from_offset} ({first.reason.name.lower()})"
    ]
