"""Who waits for an answer: one call, or one of several that were asked together.

The invariant: each is told once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from pytubemq.errors import TubeError
    from pytubemq.wire.rpc import Response


class AskedRun(NamedTuple):
    """Calls that were asked together; the serial numbers of the others follow the first one's."""

    first: int
    asked: int
    landed: Callable[[Sequence[Response]], None]
    """Called with answers as they come, several at a time."""
    failed: Callable[[int, TubeError], None]
    """Called with the number of a call in the run, from 0, and its error."""


class Waiting(NamedTuple):
    """A call without an answer yet; those of a run have all the same one."""

    done: Callable[[Response | TubeError], None] | AskedRun
    deadline_s: float
    timeout_s: float
    method: int
    future: asyncio.Future[Response] | None
    """Where the answer goes if it is waited for in this way; a cancelled one waits no more."""

    def given_up(self) -> bool:
        """Whether nobody wants the answer any more."""
        return self.future is not None and self.future.done()

    def fail(self, serial: int, error: TubeError) -> None:
        """It has no answer."""
        if isinstance(self.done, AskedRun):
            self.done.failed(serial - self.done.first, error)
        else:
            self.done(error)

    def land(self, answer: Response) -> None:
        """It has its answer."""
        if isinstance(self.done, AskedRun):
            self.done.landed((answer,))
        else:
            self.done(answer)
