"""A few members as those of `bench.scale.wire`: no call fails and nothing moves when their Master is killed."""

from __future__ import annotations

from typing import Any

import pytest

from bench.scale.wire import run

pytestmark = pytest.mark.anyio

MEMBERS, GROUPS = 40, 8


async def test_members_keep_what_they_have_when_the_master_is_killed() -> None:
    rows: dict[str, dict[str, Any]] = {}
    failures = await run(MEMBERS, GROUPS, lambda row: rows.update({str(row["step"]): row}), seconds=0.0, grace_s=0.0)
    assert failures == 0
    assert rows["all join"]["moves"] >= MEMBERS
    assert rows["the Master was killed"]["events"] == 0
    assert rows["after its grace period"]["events"] == 0
    assert rows["a fifth leaves"]["members"] == MEMBERS * 4 // 5
    assert rows["a fifth leaves"]["moves"] >= MEMBERS // 5
