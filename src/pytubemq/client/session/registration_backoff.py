"""The backoff of clients that register again, at the Master and at a Broker."""

from __future__ import annotations

from typing import Final

from pytubemq.core.retry import Backoff

MASTER_BACKOFF: Final = Backoff(first_s=0.1, most_s=2.0)
"""Before a producer or consumer registers again at the Master, or sends a heartbeat that failed."""
BROKER_BACKOFF: Final = Backoff(first_s=0.05, most_s=1.0)
"""Before a consumer registers a partition again at its Broker."""
