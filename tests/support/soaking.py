"""Long tests in parts, so that all workers share them.

A test that asks for `part` takes its share of whatever it goes through: `part.of(cases)`. Without `--soak` there is one
part, which is everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")

SOAK_PARTS: Final = 8
"""Several for each worker, so that none waits long for the other at the end."""


@dataclass(frozen=True, slots=True)
class Part:
    """Part `number` of `count`; together the parts have every case once."""

    number: int
    count: int

    def of(self, cases: Iterable[T]) -> Iterator[T]:
        """Yield every `count`-th case, from the one with this part's number."""
        return islice(cases, self.number, None, self.count)

    def __str__(self) -> str:
        return f"part{self.number + 1}of{self.count}"


def parts(*, soak: bool) -> list[Part]:
    """Return the parts in which a long test runs."""
    count = SOAK_PARTS if soak else 1
    return [Part(number, count) for number in range(count)]
