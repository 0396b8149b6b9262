"""Messages move from the journal into their partitions' logs when a test says so (`support.apply_now`).

A response ends where what is on disk ends and what is in memory begins. If messages moved whenever the thread in the
background had its turn, what a test reads at once would depend on the speed of the machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.broker.append import log_applier

if TYPE_CHECKING:
    from collections.abc import Iterator

NEVER_S = 600.0


@pytest.fixture(autouse=True)
def idle_applier() -> Iterator[None]:
    """The thread waits until it is woken: by a test, or because so much waits that it is worth its while."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_applier, "IDLE_S", NEVER_S)
        patch.setattr(log_applier, "LONGEST_REST_S", NEVER_S)
        yield
