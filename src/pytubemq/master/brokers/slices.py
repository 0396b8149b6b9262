"""Work on very many items in slices between which the event loop runs."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from pytubemq.model.limits import REPORT_SLICE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

T = TypeVar("T")


async def slices(items: Iterable[T]) -> AsyncIterator[list[T]]:
    """Yield the items in lists of at most `REPORT_SLICE`, and let the loop run after each.

    The collection must not change meanwhile.
    """
    left = iter(items)
    while found := list(islice(left, REPORT_SLICE)):
        yield found
        await asyncio.sleep(0)
