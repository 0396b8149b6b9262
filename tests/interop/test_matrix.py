"""Every client on every pair of Master and Broker: nothing lost, changed, out of order or there twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .rows import CLIENTS, ROWS, columns_of
from .system import COLUMNS

if TYPE_CHECKING:
    from .runner import Runner

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]
LEAST_MESSAGES = 20_000


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("row", CLIENTS)
def test_client(runner: Runner, row: str, column: str) -> None:
    """A kind of client in a column."""
    assert runner.result(row, column)["messages"] >= LEAST_MESSAGES


@pytest.mark.parametrize(
    ("row", "column"), [(row, column) for row in ROWS if row not in CLIENTS for column in columns_of(row)]
)
def test_disturbance(runner: Runner, row: str, column: str) -> None:
    """What may happen in a column."""
    assert runner.result(row, column)["messages"] > 0
