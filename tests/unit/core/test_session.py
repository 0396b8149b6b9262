"""The life of a client at the Master."""

from __future__ import annotations

import pytest

from pytubemq.core.session import TABLE, Action, Fact, Phase, fact_of, step
from pytubemq.errors import ConfigError, ConnectionLostError, RemoteError, StandbyError, refused


def test_the_usual_life() -> None:
    phase = Phase.NEW
    seen = []
    for fact in (
        Fact.START,
        Fact.ACCEPTED,
        Fact.ACCEPTED,
        Fact.FAILED,
        Fact.UNKNOWN,
        Fact.FAILED,
        Fact.ACCEPTED,
        Fact.CLOSE,
    ):
        phase, action = step(phase, fact)
        seen.append(action)
    assert seen == [
        Action.REGISTER,
        Action.HEARTBEAT,
        Action.HEARTBEAT,
        Action.HEARTBEAT_LATER,
        Action.REGISTER,
        Action.REGISTER_LATER,
        Action.HEARTBEAT,
        Action.SAY_GOODBYE,
    ]
    assert phase is Phase.CLOSED


@pytest.mark.parametrize("fact", list(Fact))
def test_after_close_nothing_is_said(fact: Fact) -> None:
    assert step(Phase.CLOSED, fact) == (Phase.CLOSED, Action.NOTHING)


def test_every_phase_can_be_closed() -> None:
    for phase in Phase:
        assert step(phase, Fact.CLOSE)[0] is Phase.CLOSED


def test_only_an_active_client_sends_heartbeats() -> None:
    for phase, action in TABLE.values():
        assert (action in (Action.HEARTBEAT, Action.HEARTBEAT_LATER)) == (phase is Phase.ACTIVE)


@pytest.mark.parametrize(
    ("error", "fact"),
    [
        (refused(411, "who"), Fact.UNKNOWN),
        (refused(431, "no such topic"), Fact.REFUSED),
        (refused(425, "other topics"), Fact.REFUSED),
        (refused(403, "forbidden"), Fact.REFUSED),
        (refused(404, "nothing"), Fact.REFUSED),
        (refused(415, "certificate"), Fact.REFUSED),
        (RemoteError("oops", exception_name="java.lang.reflect.InvocationTargetException"), Fact.FAILED),
        (RemoteError("oops", exception_name="java.lang.Exception"), Fact.REFUSED),
        (refused(500, "oops"), Fact.FAILED),
        (refused(503, "stopping"), Fact.FAILED),
        (ConnectionLostError("x"), Fact.FAILED),
        (StandbyError("not me"), Fact.FAILED),
        (ConfigError("x"), Fact.REFUSED),
    ],
)
def test_what_a_failure_means(error: Exception, fact: Fact) -> None:
    assert fact_of(error) is fact
