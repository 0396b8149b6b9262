"""What the tests of push consumers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.client.push import push_consumer as push_module
from pytubemq.core.retry import Backoff
from pytubemq.net.iothread import IoThread
from pytubemq.testing.mock_broker import MockBroker

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_module, "AGAIN", Backoff(first_s=0.01, most_s=0.02))


@pytest.fixture
def threaded() -> Iterator[MockBroker]:
    """A cluster on a thread of its own."""
    io = IoThread(name="mock")

    async def start() -> MockBroker:
        made = MockBroker(topics={"demo": 1})
        await made.start()
        return made

    mock = io.run(start())
    yield mock
    io.run(mock.stop())
    io.close()
