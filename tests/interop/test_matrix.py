"""Every client on every pair of Master and Broker: nothing lost, changed, out of order or there twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .rows import ROWS
from .system import COLUMNS

if TYPE_CHECKING:
    from .runner import Runner

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]
LEAST_MESSAGES = 20_000


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("row", ROWS)
def test_cell(runner: Runner, row: str, column: str) -> None:
    """A kind of client in a column."""
    assert runner.result(row, column)["messages"] >= LEAST_MESSAGES
