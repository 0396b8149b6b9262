"""Terms of a group: the codes and their order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytubemq.core.balance.consistency import Terms, check_terms
from pytubemq.errors import Code

GROUP = Terms(topics=frozenset({"demo"}), conditions={"demo": frozenset({"a"})})
BOUND = replace(GROUP, bound=True, session_key="k", total_count=2)


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
    ],
)
def test_terms_are_compared_in_the_originals_order(terms: Terms, group: Terms, code: Code | None) -> None:
    found = check_terms("c1", terms, group)
    assert (found and found.code) == code
    if found is not None:
        assert "c1" in found.text
