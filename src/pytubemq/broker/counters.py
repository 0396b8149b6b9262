"""Counters of a Broker's work: plain numbers that cost little while nobody reads them.

The invariant: no counting per message; one addition for a fetch, a write or a refusal. Figures that the store or the
connections already have are not counted here again. Event loop only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pytubemq.observe.histogram import Histogram

MAX_TOPICS_COUNTED: Final = 10_000
"""Topics whose traffic is counted individually; further ones are counted under OTHER."""
OTHER: Final = "other"


@dataclass(slots=True)
class Traffic:
    """The messages of one topic that were sent to readers, with their bytes as stored."""

    messages: int = 0
    payload_bytes: int = 0


@dataclass(slots=True)
class Counters:
    """Counters since the Broker's start."""

    fetches: int = 0
    """Fetches and range reads that were answered with a slice, empty ones included."""
    refused_fetches: dict[int, int] = field(default_factory=dict)
    """Refused fetches by code; 404, the end of a partition, is one of them."""
    refused_sends: dict[int, int] = field(default_factory=dict)
    """Refused sends by code; a batch of which some messages were refused counts once."""
    handed_out: dict[str, Traffic] = field(default_factory=dict)
    """Traffic by topic."""
    skipped_messages: int = 0
    """Messages lost to damage that readers skipped."""
    put_s: Histogram = field(default_factory=Histogram)
    """Times from a send's arrival to its response."""
    fetch_s: Histogram = field(default_factory=Histogram)
    """Times from a fetch's arrival to its response, the wait at the end of the partition included."""
    confirm_s: Histogram = field(default_factory=Histogram)
    """Times from a confirm's arrival to its response."""
    expired_registrations: int = 0
    """Consumers' registrations that expired."""

    def served(self, topic: str, messages: int, payload_bytes: int) -> None:
        """Count a fetch's messages of a topic."""
        self.fetches += 1
        traffic = self.handed_out.get(topic)
        if traffic is None:
            if len(self.handed_out) >= MAX_TOPICS_COUNTED:
                topic = OTHER
            traffic = self.handed_out.setdefault(topic, Traffic())
        traffic.messages += messages
        traffic.payload_bytes += payload_bytes

    def record_refused_send(self, code: int) -> None:
        """Count a send with a code other than 200."""
        self.refused_sends[code] = self.refused_sends.get(code, 0) + 1

    def record_refused_fetch(self, code: int) -> None:
        """Count a fetch with a code other than 200."""
        self.refused_fetches[code] = self.refused_fetches.get(code, 0) + 1
