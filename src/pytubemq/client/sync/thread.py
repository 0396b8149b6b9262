"""The I/O thread of the sync client: what goes wrong there is said in the words of its API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pytubemq.errors import ClosedError
from pytubemq.net.iothread import IoThread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")


class SyncThread(IoThread):
    """An `IoThread` whose users enter things by `with`, not by `async with`."""

    def run(
        self, coroutine: Coroutine[Any, Any, T], *, give_back: Callable[[T], Coroutine[Any, Any, Any]] | None = None
    ) -> T:
        """As `IoThread.run`."""
        try:
            return super().run(coroutine, give_back=give_back)
        except ClosedError as error:
            use_sync_words(error)
            raise


def use_sync_words(error: BaseException) -> None:
    """Change the hint of an error that says what to enter, so that it fits the sync API."""
    if isinstance(error, ClosedError) and error.hint is not None:
        error.hint = error.hint.replace("async with", "with")
