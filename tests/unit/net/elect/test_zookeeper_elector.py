"""The election on a lease that is stored in ZooKeeper, without one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pytubemq.core.database.lease_watch import Lease
from pytubemq.net.elect.zookeeper_elector import ZooKeeperElector

if TYPE_CHECKING:
    from pytubemq.net.elect.stored_lease import StoredLease

pytestmark = pytest.mark.anyio

LEASE_S = 120.0
"""Longer than a test may take: only a fault ends it."""


class FaultyLease:
    """A free lease whose renewal has a fault of ours."""

    def __init__(self) -> None:
        self.closed = False

    def see(self, *, limit_s: float) -> tuple[Lease, int]:
        return Lease(0, "", 0, 0.0), 0

    def take(self, seen: Lease, version: int, *, holder: str, lease_s: float, limit_s: float) -> bool:
        return True

    def write(self, epoch: int, *, holder: str, lease_s: float, limit_s: float) -> bool:
        if not holder:
            return True
        raise ZeroDivisionError("a fault of ours")

    def drop(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


async def test_a_fault_of_the_renewal_ends_the_leadership_at_once_and_aloud(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pytubemq.net.elect.zookeeper_elector.LEASE_RENEWALS", 10_000)
    lease = FaultyLease()
    stored: StoredLease = lease
    elector = ZooKeeperElector(stored, "one", lease_s=LEASE_S)
    await elector.lead()
    async with asyncio.timeout(30):
        assert "ZeroDivisionError" in await elector.until_lost()
    assert not elector.leads
    assert "the renewal of the lease failed" in caplog.text
    await elector.close()
    assert lease.closed
