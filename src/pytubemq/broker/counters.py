"""What a Broker counts while it works: plain numbers that nobody looks at until somebody asks.

The invariant: no counting per message; one addition for a fetch, a write or a refusal. What can be read off the store
or the connections is not counted here a second time. Event loop only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pytubemq.observe.histogram import Histogram

MAX_TOPICS_COUNTED: Final = 10_000
"""Topics whose traffic is told apart; what goes out of further ones is counted under OTHER."""
OTHER: Final = "other"


@dataclass(slots=True)
class Traffic:
    """What was handed out of one topic; its bytes are those it is stored in."""

    messages: int = 0
    payload_bytes: int = 0


@dataclass(slots=True)
class Counters:
    """Counters since the Broker's start."""

    fetches: int = 0
    """Fetches and reads of a range that were answered with a slice, empty ones included."""
    refused_fetches: dict[int, int] = field(default_factory=dict)
    """By code; 404, the end of a partition, is one of them."""
    refused_sends: dict[int, int] = field(default_factory=dict)
    """Sends by the code of their answer; a batch of which some messages were refused counts once."""
    handed_out: dict[str, Traffic] = field(default_factory=dict)
    """By topic."""
    skipped_messages: int = 0
    """Messages lost to damage that readers were led past."""
    put_s: Histogram = field(default_factory=Histogram)
    """From a send's arrival to its answer."""
    fetch_s: Histogram = field(default_factory=Histogram)
    """From a fetch's arrival to its answer, time held at the end of the partition included."""
    confirm_s: Histogram = field(default_factory=Histogram)
    """From a confirm's arrival to its answer."""
    expired_holds: int = 0
    """Consumers' holds that ran out."""

    def served(self, topic: str, messages: int, payload_bytes: int) -> None:
        """A fetch was answered with so much of a topic."""
        self.fetches += 1
        traffic = self.handed_out.get(topic)
        if traffic is None:
            if len(self.handed_out) >= MAX_TOPICS_COUNTED:
                topic = OTHER
            traffic = self.handed_out.setdefault(topic, Traffic())
        traffic.messages += messages
        traffic.payload_bytes += payload_bytes

    def send_refused(self, code: int) -> None:
        """A send was answered with another code than 200."""
        self.refused_sends[code] = self.refused_sends.get(code, 0) + 1

    def fetch_refused(self, code: int) -> None:
        """A fetch was answered with another code than 200."""
        self.refused_fetches[code] = self.refused_fetches.get(code, 0) + 1
