"""Results that a response gives by position: the first belongs to the first item of the request, and so on."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pytubemq.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Sequence

A = TypeVar("A")
R = TypeVar("R")


def match_results(asked: Sequence[A], results: Sequence[R], what: str) -> list[tuple[A, R]]:
    """Return each requested item with its result.

    Raises:
        FormatError: there are more or fewer results than items, so none can be matched.
    """
    # With one missing every later one would be taken for another item's, an offset for that of another
    # partition.
    if len(asked) != len(results):
        raise FormatError(
            f"a response has {len(results)} results for {len(asked)} {what}",
            hint="the request may have been carried out: check, then retry",
        )
    return list(zip(asked, results, strict=True))
