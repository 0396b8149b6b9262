"""Results by position."""

from __future__ import annotations

import pytest

from pytubemq.errors import FormatError
from pytubemq.wire.positional import by_position


def test_each_thing_has_its_result() -> None:
    assert by_position(["a", "b"], (1, 2), "letters") == [("a", 1), ("b", 2)]
    assert by_position([], [], "letters") == []


@pytest.mark.parametrize("results", [(), (1,), (1, 2, 3)])
def test_too_many_or_too_few_say_nothing(results: tuple[int, ...]) -> None:
    with pytest.raises(FormatError, match=f"{len(results)} results for 2 letters"):
        by_position(["a", "b"], results, "letters")
