"""Wrong passwords, counted for each user and for each host, and the time to wait after them.

The invariants: an attempt counts from its beginning, so attempts at the same time gain nothing; the wait does not
depend on whether there is such a user; memory is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final

from pytubemq.model.limits import MAX_ATTEMPT_KEYS

FREE_ATTEMPTS: Final = 5
"""Wrong passwords without a wait."""
LONGEST_USER_WAIT_S: Final = 60.0
"""Short, since whoever knows a name can make its owner wait."""
LONGEST_HOST_WAIT_S: Final = 900.0
FORGET_S: Final = 900.0
"""Time after the last wrong password, and its wait, when the count begins anew."""
_SITE_BITS: Final = 64
"""The part of an IPv6 address that one site has: it may use all addresses below it."""


@dataclass(slots=True)
class _Count:
    failures: int = 0
    blocked_until_s: float = 0.0
    last_s: float = 0.0


class _Counts:
    def __init__(self, longest_wait_s: float, most: int) -> None:
        self._longest_wait_s = longest_wait_s
        self._most = most
        self._counts: dict[str, _Count] = {}

    def wait_s(self, key: str, now_s: float) -> float:
        count = self._counts.get(key)
        return 0.0 if count is None else max(0.0, count.blocked_until_s - now_s)

    def add(self, key: str, now_s: float) -> None:
        count = self._counts.pop(key, None)
        if count is None or now_s - max(count.last_s, count.blocked_until_s) > FORGET_S:
            count = _Count()
        count.failures += 1
        count.last_s = now_s
        excess = count.failures - FREE_ATTEMPTS
        if excess >= 0:
            count.blocked_until_s = now_s + min(2.0 ** min(excess, 30), self._longest_wait_s)
        self._counts[key] = count  # at the end: the first is the one that failed last the longest time ago
        while len(self._counts) > self._most:
            del self._counts[next(iter(self._counts))]

    def take_back(self, key: str, *, all_of_them: bool) -> None:
        count = self._counts.get(key)
        if count is None:
            return
        count.failures -= 1
        if all_of_them or count.failures <= 0:
            del self._counts[key]
        elif count.failures < FREE_ATTEMPTS:
            count.blocked_until_s = 0.0


class Attempts:
    """The attempts to sign in at one Master; times in seconds of one clock."""

    def __init__(self, *, most: int = MAX_ATTEMPT_KEYS) -> None:
        self._users = _Counts(LONGEST_USER_WAIT_S, most)
        self._hosts = _Counts(LONGEST_HOST_WAIT_S, most)

    def wait_s(self, user: str, host: str, now_s: float) -> float:
        """Return how long the user, or the host, has to wait until its next attempt; 0 if it need not."""
        return max(self._users.wait_s(user, now_s), self._hosts.wait_s(site_of(host), now_s))

    def begin(self, user: str, host: str, now_s: float) -> None:
        """Count an attempt as wrong, until `succeeded` takes it back."""
        self._users.add(user, now_s)
        self._hosts.add(site_of(host), now_s)

    def succeeded(self, user: str, host: str) -> None:
        """Take an attempt back; the user's count begins anew, the host's does not: it may have guessed other users'."""
        self._users.take_back(user, all_of_them=True)
        self._hosts.take_back(site_of(host), all_of_them=False)


def site_of(host: str) -> str:
    """Return what counts as one host: an IPv4 address, or the first half of an IPv6 address."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not isinstance(address, IPv6Address) or address.is_loopback:
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{int(address) >> (128 - _SITE_BITS):x}::"
