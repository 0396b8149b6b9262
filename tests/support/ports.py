"""Ports that nobody else gets between the question for one and its use."""

from __future__ import annotations

import random
import socket

_given: set[int] = set()


def free_port(host: str = "0.0.0.0") -> int:
    """A port that nobody listens on: none that the system or a server of ours takes by itself."""
    for _ in range(1000):
        port = random.SystemRandom().randrange(10_000, 20_000)
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
        if port not in _given:
            _given.add(port)
            return port
    raise OSError("a thousand ports are all taken")
