"""What each of these tests leaves behind is put away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.spark.source.read.fetch import close_kept

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _no_connection_is_kept() -> Iterator[None]:
    yield
    close_kept()
