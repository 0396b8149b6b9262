"""The boundary where Spark calls this package: our errors leave it in a form that Spark can print and log.

On the driver they leave without an internal traceback. The invariant: the error itself is the same, with its kind and
remedy; its text, which may have words of a peer, is escaped and cut, and a refused user without a remedy gets the names
of the options. Any other exception keeps its whole trace, for that is a fault of this package.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from pytubemq.errors import Code, NotAllowedError, TubeError
from pytubemq.model.names import escaped
from pytubemq.spark.cluster_option import USER_HINT

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")
MAX_TEXT_CHARS: Final = 4_000
"""Characters of an error's text that are kept; Spark repeats it in several places."""
MAX_CAUSES: Final = 20
"""Errors behind an error that are looked at."""


def entrance(method: Callable[P, R]) -> Callable[P, R]:
    """Wrap a method so that our errors are raised from here: Spark prints the trace of what a data source raises.

    The signature stays, as Spark looks at it.
    """

    @functools.wraps(method)
    def entered(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except TubeError as error:
            make_printable(error)
            raise error.with_traceback(None) from None

    return entered


def make_printable(error: TubeError) -> None:
    """Escape and cut the text of an error that Spark is about to print, and the texts of what caused it.

    If a user is refused, name the options.
    """
    if isinstance(error, NotAllowedError) and error.code == Code.CERTIFICATE_FAILURE and error.hint is None:
        error.hint = USER_HINT
    printed: BaseException | None = error
    for _ in range(MAX_CAUSES):
        if isinstance(printed, TubeError):
            printed.message = _printable(printed.message)
        if printed is None:
            return
        printed = printed.__cause__ or printed.__context__


def _printable(text: str) -> str:
    if len(text) > MAX_TEXT_CHARS:
        text = f"{text[:MAX_TEXT_CHARS]}... ({len(text):,} characters)"
    return escaped(text)
