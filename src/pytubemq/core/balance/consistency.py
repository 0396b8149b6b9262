"""Who may join a group: every member must have come on the same terms as the first.

The order of the checks and their codes are the original's (424, 425, 426, then for bound groups 427, 428, 429).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytubemq.errors import Code

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Terms:
    """What a consumer registers with and all members of its group must share.

    `conditions` has an entry per topic that is filtered. The last three only count in a bound group.
    """

    topics: frozenset[str]
    conditions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    bound: bool = False
    session_key: str = ""
    select_big: bool = True
    total_count: int = -1


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why a consumer may not join."""

    code: Code
    text: str


def check_terms(consumer: str, terms: Terms, group: Terms) -> Mismatch | None:
    """Compare a consumer's terms with its group's; None when they agree."""
    if terms.bound != group.bound:
        return Mismatch(
            Code.CLIENT_INCONSISTENT_CONSUMETYPE,
            f"{consumer} subscribes {_kind(terms)}, the other consumers of its group {_kind(group)}",
        )
    if terms.topics != group.topics:
        return Mismatch(
            Code.CLIENT_INCONSISTENT_TOPICSET,
            f"{consumer} subscribes to {_names(terms.topics)}, its group to {_names(group.topics)}",
        )
    if dict(terms.conditions) != dict(group.conditions):
        return Mismatch(
            Code.CLIENT_INCONSISTENT_FILTERSET,
            f"{consumer} filters by {_filters(terms)}, its group by {_filters(group)}",
        )
    return _check_bound(consumer, terms, group) if terms.bound else None


def _check_bound(consumer: str, terms: Terms, group: Terms) -> Mismatch | None:
    if terms.session_key != group.session_key:
        return Mismatch(
            Code.CLIENT_INCONSISTENT_SESSIONKEY,
            f"{consumer} has session key {terms.session_key!r}, its group {group.session_key!r}",
        )
    if terms.select_big != group.select_big:
        return Mismatch(
            Code.CLIENT_INCONSISTENT_SELECTBIG,
            f"{consumer} has selectBig {terms.select_big}, its group {group.select_big}",
        )
    if terms.total_count != group.total_count:
        return Mismatch(
            Code.CLIENT_INCONSISTENT_SOURCECOUNT,
            f"{consumer} counts {terms.total_count} consumers, its group {group.total_count}",
        )
    return None


def _kind(terms: Terms) -> str:
    return "bound" if terms.bound else "unbound"


def _names(topics: frozenset[str]) -> str:
    return f"[{', '.join(sorted(topics))}]"


def _filters(terms: Terms) -> str:
    if not terms.conditions:
        return "nothing"
    return "; ".join(f"{topic}#{','.join(sorted(items))}" for topic, items in sorted(terms.conditions.items()))
