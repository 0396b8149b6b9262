"""The election on a stored lease, without a server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pytubemq.core.database.lease_watch import Lease
from pytubemq.net.elect.lease_elector import LeaseElector

if TYPE_CHECKING:
    from pytubemq.net.elect.stored_lease import StoredLease

pytestmark = pytest.mark.anyio

LEASE_S = 120.0
"""Longer than a test may take: only a fault ends it."""


class FaultyLease:
    """A free lease whose renewal has a fault of ours."""

    def __init__(self) -> None:
        self.closed = False

    async def see(self, *, limit_s: float) -> Lease:
        return Lease(0, "", 0, 0.0)

    async def take(self, seen: Lease, *, holder: str, lease_s: float, limit_s: float) -> bool:
        return True

    async def renew(self, epoch: int, *, limit_s: float) -> bool:
        raise ZeroDivisionError("a fault of ours")

    async def give_back(self, epoch: int, *, limit_s: float) -> None:
        pass

    def close(self) -> None:
        self.closed = True


async def test_a_fault_of_the_renewal_ends_the_leadership_at_once_and_aloud(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pytubemq.net.elect.lease_elector.LEASE_RENEWALS", 10_000)
    lease = FaultyLease()
    stored: StoredLease = lease
    elector = LeaseElector(stored, "one", lease_s=LEASE_S)
    await elector.lead()
    async with asyncio.timeout(30):
        assert "ZeroDivisionError" in await elector.until_lost()
    assert not elector.leads
    assert "the renewal of the lease failed" in caplog.text
    await elector.close()
    assert lease.closed
