"""What the bytes of a peer may cost: every message, every field, the worst of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.soaking import Part

ROOT = Path(__file__).parents[3]


@pytest.mark.process
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of a process's memory is read from /proc")
def test_no_frame_costs_more_than_a_small_factor_of_its_size(part: Part, soak: bool) -> None:
    size = (2 << 20) if soak else (1 << 16)
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.wire.frame_costs", *map(str, (size, part.number, part.count))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, f"the process ended with {done.returncode}: {done.stderr[-2000:]}"
    found = json.loads(done.stdout)
    assert found["costly"] == []
    assert found["read"] > 2000 // part.count
