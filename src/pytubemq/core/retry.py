"""Retries: backoff with jitter, and the failures that are worth another try.

The invariant: a delay never exceeds its bound, and a failure that cannot pass on its own is never retried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pytubemq.errors import Code, EnvelopeError, RefusedError, RemoteError, TlsError, TransportError, TubeError

Rng = Callable[[], float]
"""A number in [0, 1)."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that double from `first_s` to `most_s`, each shortened by up to `jitter` of itself.

    Shortened, not lengthened, so that `most_s` is a true bound; the spread keeps many clients from coming back in step.
    """

    first_s: float = 0.05
    most_s: float = 2.0
    jitter: float = 0.5

    def delay_s(self, attempt: int, rng: Rng) -> float:
        """Return the delay before try number `attempt` (1 is the first repeat)."""
        doublings = min(max(attempt, 1) - 1, 30)  # beyond 30 the bound holds anyway, and 2**n stays small
        whole_s = min(self.most_s, self.first_s * 2.0**doublings)
        return whole_s * (1.0 - self.jitter * rng())


class Verdict(Enum):
    """The treatment of a failure."""

    RETRY = "retry"
    RETRY_BRIEFLY = "retry briefly"
    GIVE_UP = "give up"


BRIEF_S: Final = 5.0
"""Seconds for which Master and Broker may disagree: one of them learns of a topic or a restart a little later than the
other, at most a heartbeat.
"""

_BRIEF: Final = frozenset({Code.FORBIDDEN, Code.NOT_FOUND, Code.CERTIFICATE_FAILURE})
"""415, because a Broker may hear of a new visit token a little later than its client, or the other way round."""


def verdict(error: BaseException) -> Verdict:
    """Return the treatment of `error`.

    A Broker that answers 403 or 404 to a partition that the Master has just named does not know of it yet, or no
    longer: worth a few tries, not the whole delivery time. So is a peer that failed while it worked on the request: it
    may have been caught at a bad moment, or will fail at this request for ever.
    """
    # Before `retriable`, which says of an error's class and not for how long.
    if isinstance(error, RefusedError) and error.code in _BRIEF:
        return Verdict.RETRY_BRIEFLY
    # The original reports every failure inside a handler alike and without text, so whether it will pass cannot be
    # known.
    if isinstance(error, RemoteError) and error.at_work:
        return Verdict.RETRY_BRIEFLY
    # A response whose envelope cannot be read shows another kind of peer and not a bad moment: a retry would end alike.
    if isinstance(error, EnvelopeError) or not isinstance(error, TubeError):
        return Verdict.GIVE_UP
    if isinstance(error, TlsError):  # certificates do not change from one try to the next
        return Verdict.GIVE_UP
    # A connection that broke says nothing against the request.
    return Verdict.RETRY if error.retriable or isinstance(error, TransportError) else Verdict.GIVE_UP


def refused_since_s(error: BaseException, now_s: float, before_s: float | None) -> float | None:
    """Return when the first of the refusals in a row came that end with `error`; None if it is another failure.

    `before_s` is what this returned for the failure before it, None for the first one.
    """
    if verdict(error) is not Verdict.RETRY_BRIEFLY:
        return None
    return now_s if before_s is None else before_s


def may_retry(error: BaseException, *, age_s: float, limit_s: float, refused_s: float) -> bool:
    """True if work that began `age_s` ago and may take `limit_s` in all is tried again after `error`.

    `refused_s` is the time since the first of the refusals in a row that end with this one: what happened before them,
    as a Broker that was away, takes nothing of their brief time.
    """
    match verdict(error):
        case Verdict.RETRY:
            return age_s < limit_s
        case Verdict.RETRY_BRIEFLY:
            return age_s < limit_s and refused_s < BRIEF_S
        case Verdict.GIVE_UP:
            return False
