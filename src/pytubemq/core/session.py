"""The life of a client at the Master: register, heartbeat, re-register, close; one table for all kinds of client.

The invariants: a client that was refused as unknown (411) registers before it sends anything else; a refusal that
will not pass ends the session; after close nothing is sent any more.

    NEW ──start──▶ REGISTERING ──accepted──▶ ACTIVE ──unknown──▶ REGISTERING
                     │  ▲                      │
              failed └──┘ (after a pause)      └ failed: heartbeat again after a pause
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pytubemq.core.retry import Verdict, verdict
from pytubemq.errors import NotRegisteredError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Phase(Enum):
    """The phases of a session."""

    NEW = "new"
    REGISTERING = "registering"
    ACTIVE = "active"
    CLOSED = "closed"
    FAILED = "failed"


class Fact(Enum):
    """The events that change a session's phase."""

    START = "start"
    ACCEPTED = "accepted"
    UNKNOWN = "unknown"
    FAILED = "failed"
    REFUSED = "refused"
    CLOSE = "close"


class Action(Enum):
    """The next step of a session."""

    REGISTER = "register"
    REGISTER_LATER = "register later"
    HEARTBEAT = "heartbeat"
    HEARTBEAT_LATER = "heartbeat later"
    SAY_GOODBYE = "say goodbye"
    GIVE_UP = "give up"
    NOTHING = "nothing"


TABLE: Final[Mapping[tuple[Phase, Fact], tuple[Phase, Action]]] = MappingProxyType(
    {
        (Phase.NEW, Fact.START): (Phase.REGISTERING, Action.REGISTER),
        (Phase.NEW, Fact.CLOSE): (Phase.CLOSED, Action.NOTHING),
        (Phase.REGISTERING, Fact.ACCEPTED): (Phase.ACTIVE, Action.HEARTBEAT),
        # A Master that answers 411 to a registration is no use now; to register at once again would spin.
        (Phase.REGISTERING, Fact.UNKNOWN): (Phase.REGISTERING, Action.REGISTER_LATER),
        # After a pause: when a Master restarts, all its clients come at once.
        (Phase.REGISTERING, Fact.FAILED): (Phase.REGISTERING, Action.REGISTER_LATER),
        (Phase.REGISTERING, Fact.REFUSED): (Phase.FAILED, Action.GIVE_UP),
        # The Master may have registered us although its response did not arrive, so we unregister all the same.
        (Phase.REGISTERING, Fact.CLOSE): (Phase.CLOSED, Action.SAY_GOODBYE),
        (Phase.ACTIVE, Fact.ACCEPTED): (Phase.ACTIVE, Action.HEARTBEAT),
        # At once: it restarted or gave us up, and until we are back it may assign what we hold to others.
        (Phase.ACTIVE, Fact.UNKNOWN): (Phase.REGISTERING, Action.REGISTER),
        # Still registered as far as we know: what was assigned stays in use while the Master is away.
        (Phase.ACTIVE, Fact.FAILED): (Phase.ACTIVE, Action.HEARTBEAT_LATER),
        (Phase.ACTIVE, Fact.REFUSED): (Phase.FAILED, Action.GIVE_UP),
        (Phase.ACTIVE, Fact.CLOSE): (Phase.CLOSED, Action.SAY_GOODBYE),
        # It may have been registered before it was refused; a farewell of somebody unknown does no harm.
        (Phase.FAILED, Fact.CLOSE): (Phase.CLOSED, Action.SAY_GOODBYE),
    }
)


def step(phase: Phase, fact: Fact) -> tuple[Phase, Action]:
    """Return the next phase and what to do. A fact that the phase does not expect changes nothing."""
    return TABLE.get((phase, fact), (phase, Action.NOTHING))


def fact_of(error: BaseException) -> Fact:
    """Return the fact that a failed register or heartbeat stands for."""
    # 411, whichever of the two requests it answers.
    if isinstance(error, NotRegisteredError):
        return Fact.UNKNOWN
    return Fact.REFUSED if verdict(error) is Verdict.GIVE_UP or _is_final(error) else Fact.FAILED


def _is_final(error: BaseException) -> bool:
    # "briefly" is for Brokers that learn of a topic later than the Master; the Master itself knows.
    return isinstance(error, RefusedError) and verdict(error) is Verdict.RETRY_BRIEFLY
