"""The metrics that every RPC server has, whichever role it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pytubemq.net.server.stats import days_until
from pytubemq.observe.metrics import Source, counter, gauge

if TYPE_CHECKING:
    from pytubemq.net.server.stats import ServerStats


class ServerFacts(Protocol):
    """The state of a server's connections, collected once for a scrape."""

    @property
    def server(self) -> ServerStats:
        """Its counters."""
        ...

    @property
    def http_expires_s(self) -> float | None:
        """When the certificate of HTTP expires, in seconds since 1970; None without TLS there."""
        ...


def server_metrics(role: str) -> tuple[Source[ServerFacts], ...]:
    """Return the metrics of a server's certificates and connections; their names begin with its role."""
    return (
        gauge(
            f"{role}_certificate_days_left",
            "Days until the certificate of the TLS port expires",
            lambda f: f.server.certificate_days,
        ),
        gauge(
            f"{role}_http_certificate_days_left",
            "Days until the certificate of HTTP expires",
            lambda f: days_until(f.http_expires_s),
        ),
        counter(
            f"{role}_tls_failures_total", "TLS handshakes that failed or took too long", lambda f: f.server.tls_failures
        ),
        gauge(f"{role}_connections", "Open connections", lambda f: f.server.connections),
        counter(f"{role}_connections_accepted_total", "Connections accepted", lambda f: f.server.accepted),
        counter(
            f"{role}_connections_refused_total",
            "Connections refused because too many were open",
            lambda f: f.server.refused,
        ),
        counter(
            f"{role}_connection_faults_total",
            "Connections closed because of malformed input",
            lambda f: f.server.faults,
        ),
        counter(
            f"{role}_slow_readers_total",
            "Connections closed because the peer did not read its responses",
            lambda f: f.server.slow_readers,
        ),
        counter(
            f"{role}_connections_made_room_total",
            "Unused or long-silent connections closed to make room for new ones",
            lambda f: f.server.made_room,
        ),
        gauge(
            f"{role}_unsent_bytes",
            "Bytes of responses that peers have not yet read",
            lambda f: f.server.unsent_bytes,
        ),
    )
