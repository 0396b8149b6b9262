"""Writes that wait until a test lets them go on."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

    from pytubemq.broker.service import BrokerService


class HeldWrites:
    """Lets a Broker's journal writes wait until they are let go."""

    def __init__(self, broker: BrokerService, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered = 0
        self.go = threading.Event()
        store = broker._store
        assert store is not None
        write = store.write

        def held(prepared: Any) -> None:
            self.entered += 1
            assert self.go.wait(30)
            write(prepared)

        monkeypatch.setattr(store, "write", held)
