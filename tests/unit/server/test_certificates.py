"""Certificates that are followed while a server runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest

from pytubemq.server import certificates

if TYPE_CHECKING:
    from pytubemq.net.tls.reload import ReloadingContext

pytestmark = pytest.mark.anyio


class _Source:
    """A context whose first reload fails as none should."""

    def __init__(self) -> None:
        self.reloads = 0
        self.went_on = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def reload(self) -> bool:
        self.reloads += 1
        if self.reloads == 1:
            raise RuntimeError("unexpected")
        self._loop.call_soon_threadsafe(self.went_on.set)
        return False


async def test_a_reload_that_fails_unexpectedly_is_logged_and_does_not_end_the_following(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(certificates, "TLS_RELOAD_PERIOD_S", 0.0)
    source = _Source()
    task = asyncio.create_task(certificates._follow([cast("ReloadingContext", source)]))
    try:
        went_on = asyncio.create_task(source.went_on.wait())
        await asyncio.wait({task, went_on}, return_when=asyncio.FIRST_COMPLETED)
        assert went_on.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert "unexpected" in caplog.text
