"""Admission to a group: every member must have come on the same terms as the first.

The order of the checks and their codes are the original's (424, 425, 426, then for bound groups 427, 428, 429, for
client-balanced ones 429, 430).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, unique
from typing import TYPE_CHECKING, Final

from pytubemq.errors import Code
from pytubemq.model.names import shown

if TYPE_CHECKING:
    from collections.abc import Mapping


@unique
class GroupKind(IntEnum):
    """The ways in which a group shares its partitions; the numbers are the protocol's."""

    SERVER_BALANCE = 0
    """The Master decides."""
    BOUND = 1
    """The Master decides, once all consumers are there, and they say where to begin."""
    CLIENT_BALANCE = 2
    """Each consumer decides for itself."""

    @property
    def text(self) -> str:
        """The kind as it is shown: `server-balance`, `bound`, `client-balance`."""
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms with which a consumer registers, and which all members of its group must share.

    `conditions` has an entry per topic that is filtered. `session_key` and `select_big` only count in a bound group.
    `total_count` is the number of consumers a bound or client-balanced group is to have; of the latter not above 0 =
    its members do not count themselves.
    """

    topics: frozenset[str]
    conditions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    kind: GroupKind = GroupKind.SERVER_BALANCE
    session_key: str = ""
    # What the original assumes of a registration that leaves these two out.
    select_big: bool = True
    total_count: int = -1

    @property
    def bound(self) -> bool:
        """True if the group is bound."""
        return self.kind is GroupKind.BOUND

    @property
    def counts_nodes(self) -> bool:
        """True if each consumer of the group has its own number below `total_count`."""
        return self.kind is GroupKind.CLIENT_BALANCE and self.total_count > 0


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The reason why a consumer may not join."""

    code: Code
    text: str


def check_terms(consumer: str, terms: Terms, group: Terms) -> Mismatch | None:
    """Compare a consumer's terms with its group's; None when they agree."""
    # First, as the kind decides what the other terms mean.
    if terms.kind is not group.kind:
        return Mismatch(
            Code.CLIENT_INCONSISTENT_CONSUMETYPE,
            f"{consumer} is a {terms.kind.text} consumer, its group is {group.kind.text}",
        )
    # Equal, not a subset: the plan gives any member any partition of the group's topics.
    if terms.topics != group.topics:
        return Mismatch(
            Code.CLIENT_INCONSISTENT_TOPICSET,
            f"{consumer} subscribes to {_names(terms.topics)}, its group to {_names(group.topics)}",
        )
    # A member with other filters would confirm, for the whole group, messages that the others want.
    if dict(terms.conditions) != dict(group.conditions):
        return Mismatch(
            Code.CLIENT_INCONSISTENT_FILTERSET,
            f"{consumer} filters by {_filters(terms)}, its group by {_filters(group)}",
        )
    if terms.kind is GroupKind.BOUND:
        return _check_bound(consumer, terms, group)
    # The first member says whether the group counts itself. After a first count of 0 or less it never does, as in the
    # original.
    return _check_count(consumer, terms, group) if group.counts_nodes else None


def check_node(consumer: str, node_id: int, taken: Mapping[int, str]) -> Mismatch | None:
    """Check that a client-balanced consumer may be the node that it claims to be; `taken` has the group's nodes."""
    # An entry of its own is no conflict: it registers again.
    holder = taken.get(node_id, consumer)
    if holder == consumer:
        return None
    return Mismatch(Code.CLIENT_DUPLICATE_INDEXID, f"{consumer} says that it is node {node_id}, which is {holder}")


def _check_bound(consumer: str, terms: Terms, group: Terms) -> Mismatch | None:
    # The session's time is not compared: each consumer sends its own, and the original ignores it as well.
    if terms.session_key != group.session_key:
        return Mismatch(
            Code.CLIENT_INCONSISTENT_SESSIONKEY,
            f"{consumer} has session key {shown(terms.session_key)}, its group {shown(group.session_key)}",
        )
    if terms.select_big != group.select_big:
        return Mismatch(
            Code.CLIENT_INCONSISTENT_SELECTBIG,
            f"{consumer} has selectBig {terms.select_big}, its group {group.select_big}",
        )
    return _check_count(consumer, terms, group)


def _check_count(consumer: str, terms: Terms, group: Terms) -> Mismatch | None:
    if terms.total_count != group.total_count:
        return Mismatch(
            Code.CLIENT_INCONSISTENT_SOURCECOUNT,
            f"{consumer} counts {terms.total_count} consumers, its group {group.total_count}",
        )
    return None


def _names(topics: frozenset[str]) -> str:
    # Sorted, so that the same refusal is the same text, and the cut falls at the same place.
    return f"[{_short(', '.join(sorted(topics)))}]"


def _filters(terms: Terms) -> str:
    if not terms.conditions:
        return "nothing"
    return _short("; ".join(f"{topic}#{','.join(sorted(items))}" for topic, items in sorted(terms.conditions.items())))


def _short(text: str) -> str:
    """Cut the text: a refusal must not be many times as long as the request, whatever the group's first member said."""
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}... ({len(text)} characters)"


# A registration may have 1,024 topics with 500 filter items each.
_MOST_CHARS: Final = 2_000
