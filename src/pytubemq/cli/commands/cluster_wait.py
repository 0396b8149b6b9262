"""The wait of `pytubemq cluster health --wait`: requests until the cluster is healthy or the time is over.

The invariants: it ends in time whether the server responds or not; what is missing is printed on standard error when it
changes, and again at the end.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import RequestTimeoutError, TubeError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytubemq.cli.options import GlobalOptions

DEFAULT_WAIT_S: Final = 30.0
PAUSE_S: Final = 0.2
"""Pause between two requests; a cluster's start takes one to two seconds."""
LEAST_REQUEST_S: Final = 0.5
"""Time that the last request may take beyond the wait, so that even a short wait makes one request."""


def await_healthy(
    ask: Callable[[float], dict[str, Any]],
    *,
    wait_s: float,
    options: GlobalOptions,
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Return the first healthy response, or the last one when the time is over.

    Args:
        ask: requests the health object, within the given number of seconds.
        wait_s: how long to wait in all.
        options: the command's options; `--timeout` bounds each request as well.
        now_s: a monotonic clock.
        sleep: pauses for the given number of seconds.

    Raises:
        UnreachableError, RequestTimeoutError: there was no response when the time was over.
    """
    end_s = now_s() + wait_s
    said = ""
    while True:
        failure: TubeError | None = None
        found: dict[str, Any] = {}
        try:
            found = ask(min(options.timeout_s, max(LEAST_REQUEST_S, end_s - now_s())))
        except (UnreachableError, RequestTimeoutError) as error:
            failure = error
        if found.get("status") == "healthy":
            return found
        missing = failure.message if failure is not None else missing_in(found)
        left_s = end_s - now_s()
        if left_s <= 0:
            options.say(f"not healthy after {wait_s:g} s (--wait): {missing}")
            if failure is not None:
                raise failure
            return found
        if missing != said:
            options.say(f"waiting, up to {wait_s:g} s (--wait): {missing}")
            said = missing
        sleep(min(PAUSE_S, left_s))


def missing_in(found: Mapping[str, Any]) -> str:
    """Return, in one line, what keeps a cluster from being healthy."""
    reasons = found.get("reasons")
    texts = [
        f"{reason.get('thing', '?')}: {reason.get('why', '?')}"
        for reason in (reasons if isinstance(reasons, list) else [])
        if isinstance(reason, dict)
    ]
    return "; ".join(texts) or f"the cluster is {found.get('status', 'in an unknown state')}"
