"""One change of many records: decided one by one, stored all at once.

The invariants: nobody else changes a record between the reading and the writing; a target that is refused spoils no
other; what was decided is durable when the outcomes are handed back, or every one of them says that the store failed.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from pytubemq.errors import StorageError
from pytubemq.master.registry.outcome import BAD_STATE, STORE_FAILED, Outcome
from pytubemq.model.limits import MAX_RECORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.model.records import Record

logger = logging.getLogger(__name__)

TARGETS_A_TURN = 500

R = TypeVar("R", bound="Record")
C = TypeVar("C")
K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Step(Generic[R]):
    """The decision about one target: its outcome, and the record to put or to delete, if any."""

    outcome: Outcome
    put: R | None = None
    delete: R | None = None


@dataclass(slots=True)
class Staged(Generic[K, R]):
    """The records of one kind as they are and as this change will leave them."""

    stored: Mapping[K, R]
    puts: dict[K, R] = field(default_factory=dict)
    deletes: dict[K, R] = field(default_factory=dict)
    added: int = 0
    """The number of records that this change adds, less those that it deletes."""

    def get(self, key: K) -> R | None:
        """Return a record as it will be; None if there will be none."""
        return self.puts.get(key) or (None if key in self.deletes else self.stored.get(key))

    def take(self, key: K, step: Step[R]) -> None:
        """Record a step."""
        was_there, is_there = self.get(key) is not None, step.put is not None
        if is_there or step.delete is not None:
            self.added += is_there - was_there
        if step.put is not None:
            self.puts[key] = step.put
            self.deletes.pop(key, None)
        if step.delete is not None:
            self.puts.pop(key, None)
            if (stored := self.stored.get(key)) is not None:
                self.deletes[key] = stored


async def change(
    catalogue: Catalogue,
    stored: Mapping[K, R],
    targets: Iterable[C],
    *,
    key: Callable[[C], K],
    decide: Callable[[C, R | None], Step[R]],
    most: int = MAX_RECORDS,
    along: Callable[[Iterable[R]], Iterable[Record]] = lambda _: (),
) -> list[Outcome]:
    """Decide about every target in turn and store the result.

    `most` is the largest number of records allowed; `along` returns records that those put need.
    """
    found: list[Outcome] = []
    touched: list[int] = []
    async with catalogue.lock:
        staged = Staged(stored)
        for number, target in enumerate(targets, 1):
            if number % TARGETS_A_TURN == 0:
                await asyncio.sleep(0)  # lets other tasks run; none of them changes a record
            known = staged.get(key(target))
            step = decide(target, known)
            if known is None and step.put is not None and len(stored) + staged.added >= most:
                step = Step(
                    Outcome(step.outcome.key, BAD_STATE, f"there are {most:,} records, which is the most: delete some")
                )
            staged.take(key(target), step)
            if step.put is not None or step.delete is not None:
                touched.append(len(found))
            found.append(step.outcome)
        try:
            await catalogue.apply([*along(staged.puts.values()), *staged.puts.values()], staged.deletes.values())
        except StorageError as error:
            logger.error("a change of %d records was not stored: %s", len(touched), error)
            for index in touched:
                found[index] = Outcome(found[index].key, STORE_FAILED, "the Master's store failed: its log says more")
    return found
