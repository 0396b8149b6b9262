"""Terms of a group: the codes and their order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytubemq.core.balance.consistency import GroupKind, Terms, check_node, check_terms
from pytubemq.errors import Code

GROUP = Terms(topics=frozenset({"demo"}), conditions={"demo": frozenset({"a"})})
BOUND = replace(GROUP, kind=GroupKind.BOUND, session_key="k", total_count=2)
CLIENT = replace(GROUP, kind=GroupKind.CLIENT_BALANCE, total_count=2)


@pytest.mark.parametrize(
    ("terms", "group", "code"),
    [
        (GROUP, GROUP, None),
        (BOUND, BOUND, None),
        (replace(BOUND, topics=frozenset({"x"})), GROUP, Code.CLIENT_INCONSISTENT_CONSUMETYPE),
        (replace(GROUP, topics=frozenset({"x"}), conditions={}), GROUP, Code.CLIENT_INCONSISTENT_TOPICSET),
        (replace(GROUP, conditions={}), GROUP, Code.CLIENT_INCONSISTENT_FILTERSET),
        (replace(GROUP, conditions={"demo": frozenset({"a", "b"})}), GROUP, Code.CLIENT_INCONSISTENT_FILTERSET),
        (replace(BOUND, session_key="x", select_big=False), BOUND, Code.CLIENT_INCONSISTENT_SESSIONKEY),
        (replace(BOUND, select_big=False, total_count=3), BOUND, Code.CLIENT_INCONSISTENT_SELECTBIG),
        (replace(BOUND, total_count=3), BOUND, Code.CLIENT_INCONSISTENT_SOURCECOUNT),
        (replace(GROUP, session_key="x", total_count=9), GROUP, None),
        (CLIENT, CLIENT, None),
        (CLIENT, GROUP, Code.CLIENT_INCONSISTENT_CONSUMETYPE),
        (BOUND, CLIENT, Code.CLIENT_INCONSISTENT_CONSUMETYPE),
        (replace(CLIENT, total_count=3), CLIENT, Code.CLIENT_INCONSISTENT_SOURCECOUNT),
        (replace(CLIENT, total_count=-2), CLIENT, Code.CLIENT_INCONSISTENT_SOURCECOUNT),
        (CLIENT, replace(CLIENT, total_count=-2), None),
    ],
)
def test_terms_are_compared_in_the_originals_order(terms: Terms, group: Terms, code: Code | None) -> None:
    found = check_terms("c1", terms, group)
    assert (found and found.code) == code
    if found is not None:
        assert "c1" in found.text


def test_a_node_is_one_consumer() -> None:
    assert check_node("c1", 1, {0: "c0"}) is None
    assert check_node("c1", 1, {1: "c1"}) is None
    found = check_node("c1", 0, {0: "c0"})
    assert found is not None
    assert found.code is Code.CLIENT_DUPLICATE_INDEXID
    assert "c0" in found.text


MANY = frozenset(f"topic_{number}" for number in range(1_000))


@pytest.mark.parametrize(
    "large",
    [
        replace(GROUP, topics=MANY),
        replace(GROUP, conditions={topic: frozenset({"x" * 256}) for topic in MANY}),
        replace(BOUND, session_key="k" * 1_000_000),
    ],
    ids=["topics", "filters", "session key"],
)
def test_a_refusal_is_short_whatever_the_group_said(large: Terms) -> None:
    found = check_terms("c1", replace(GROUP, kind=large.kind, session_key="x"), large)
    assert found is not None
    assert len(found.text) < 3_000
