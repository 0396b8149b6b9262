"""Results by position."""

from __future__ import annotations

import pytest

from pytubemq.errors import FormatError
from pytubemq.wire.text.positional import match_results


def test_each_thing_has_its_result() -> None:
    assert match_results(["a", "b"], (1, 2), "letters") == [("a", 1), ("b", 2)]
    assert match_results([], [], "letters") == []


@pytest.mark.parametrize("results", [(), (1,), (1, 2, 3)])
def test_too_many_or_too_few_say_nothing(results: tuple[int, ...]) -> None:
    with pytest.raises(FormatError, match=f"{len(results)} results for 2 letters"):
        match_results(["a", "b"], results, "letters")
