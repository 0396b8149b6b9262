"""A Master that forgets a client repeatedly: the client registers at once the first time, then after growing pauses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq import connect
from pytubemq.client.session import membership
from pytubemq.core.retry import Backoff
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.protocol.messages.master import HeartResponseM2C
from pytubemq.wire.rpc.methods import Method
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.anyio


async def test_a_master_that_forgets_at_each_heartbeat_is_not_asked_in_a_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[int] = []

    class Counted(Backoff):
        def delay_s(self, attempt: int, rng: Callable[[], float]) -> float:
            pauses.append(attempt)
            return 0.0

    monkeypatch.setattr(membership, "MASTER_BACKOFF", Counted())
    forgotten = HeartResponseM2C(success=False, err_code=411, err_msg="unknown")
    async with MockBroker(topics={"demo": 1}) as mock, connect(mock.masters) as tube:
        mock.respond_fn(Method.CONSUMER_HEARTBEAT_C2M, lambda _call, _request: forgotten)
        async with tube.consumer("g", "demo") as consumer:
            await until(lambda: len(pauses) >= 4)
            registrations = len(mock.received(Method.CONSUMER_REGISTER_C2M))
            assert pauses[:4] == [1, 2, 3, 4]
            assert registrations <= len(pauses) + 2, "one more than pauses: the second comes at once"
            mock.respond_fn(Method.CONSUMER_HEARTBEAT_C2M, None)
            await until(lambda: consumer.assignment)
            pauses.clear()
            before = len(mock.received(Method.CONSUMER_REGISTER_C2M))
            mock.respond(Method.CONSUMER_HEARTBEAT_C2M, forgotten)
            await until(lambda: len(mock.received(Method.CONSUMER_REGISTER_C2M)) > before)
            assert pauses == [], "a restart of the Master costs no pause"
