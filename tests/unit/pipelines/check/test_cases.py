"""The rows that a test or a dry run looks at; Spark's answer is played here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from pytubemq.pipelines.check.cases import collected


def test_a_time_beyond_python_s_years_does_not_keep_rows_from_being_looked_at() -> None:
    far_us = 253_402_300_800_000_000 * 10
    times = pa.array([far_us, 0], pa.int64()).cast(pa.timestamp("us"))
    rows: Any = SimpleNamespace(toArrow=lambda: pa.table({"id": [1, 2], "at": times}))
    (far, near), names = collected(rows)
    assert names == ["id", "at"]
    assert (far["id"], near["id"]) == (1, 2)
    assert isinstance(far["at"], str)
    assert near["at"].year == 1970
