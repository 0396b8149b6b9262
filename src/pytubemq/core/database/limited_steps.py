"""The steps of a call to a database, with an end.

psycopg makes each call as a generator that says what it waits for, and resumes it a few times a second while nothing
comes. A server that is stopped or cut off counts no time of its own, so the caller's time is checked there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

Wanted = TypeVar("Wanted")
Ready = TypeVar("Ready")
Result = TypeVar("Result")


class NoResponse(Exception):
    """The server has not responded within the time for a response; what it did is not known."""


def limited_steps(
    steps: Generator[Wanted, Ready, Result], is_over: Callable[[], bool]
) -> Generator[Wanted, Ready, Result]:
    """Pass on the steps of a call.

    Raises:
        NoResponse: nothing has come, and the time is over.
    """
    try:
        wanted = next(steps)
        while True:
            ready = yield wanted
            if not ready and is_over():
                raise NoResponse
            wanted = steps.send(ready)
    except StopIteration as end:
        result: Result = end.value
        return result
