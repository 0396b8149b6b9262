"""The wait of `pytubemq cluster health --wait`: ask until the cluster is healthy, or the time is over.

The invariants: it ends in time whatever answers or does not; what is missing is said on standard error when it becomes
known, and again at the end.
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
"""Between two requests; a start takes one to two seconds."""
LEAST_REQUEST_S: Final = 0.5
"""What the last request may take beyond the wait, so that a short wait also asks once."""


def await_healthy(
    ask: Callable[[float], dict[str, Any]],
    *,
    wait_s: float,
    options: GlobalOptions,
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Return the first healthy answer, or the last one when the time is over.

    Args:
        ask: requests the health object, within the seconds it is given.
        wait_s: for how long.
        options: those of the command; each request is also bounded by its `--timeout`.
        now_s: a clock that only goes forward.
        sleep: waits.

    Raises:
        UnreachableError, RequestTimeoutError: nothing had answered when the time was over.
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
    """Return what keeps a cluster from being healthy, in one line."""
    reasons = found.get("reasons")
    texts = [
        f"{reason.get('thing', '?')}: {reason.get('why', '?')}"
        for reason in (reasons if isinstance(reasons, list) else [])
        if isinstance(reason, dict)
    ]
    return "; ".join(texts) or f"the cluster is {found.get('status', 'in an unknown state')}"
