"""The boundary where Spark calls this package on the driver: our errors leave it without an internal traceback.

The invariant: the error itself is the same, with its text, remedy and kind; any other exception keeps its whole trace,
for that is a fault of this package.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from pytubemq.errors import TubeError

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


def entrance(method: Callable[P, R]) -> Callable[P, R]:
    """Wrap a method so that our errors are raised from here: Spark prints the trace of what a data source raises.

    The signature stays, as Spark looks at it.
    """

    @functools.wraps(method)
    def entered(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except TubeError as error:
            raise error.with_traceback(None) from None

    return entered
