"""Options that another part of this package refuses, one by one.

The invariant: what is refused here is what that part refuses when the pipeline runs, as the part itself is asked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_MOST: Final = 20
"""Refusals of one set of options."""


def refused_options(
    ask: Callable[[Mapping[str, str]], Any], options: Mapping[str, str]
) -> Iterator[tuple[ConfigError, str | None]]:
    """Yield each refusal with the option that it names: that one is left out, and the rest is asked again.

    Args:
        ask: raises a ConfigError for what it does not take.
        options: those of the file.
    """
    left = dict(options)
    for _ in range(_MOST):
        try:
            ask(left)
        except ConfigError as error:
            option = next((name for name in left if names(error.message, name)), None)
            yield error, option
            if option is None:
                return
            del left[option]
        else:
            return


def names(message: str, name: str | None) -> bool:
    """Return True if a message names an option, in any case."""
    return name is not None and re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", message, re.IGNORECASE) is not None
