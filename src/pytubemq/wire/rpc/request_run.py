"""Consecutive requests that differ in serial number and message alone."""

from __future__ import annotations

from pytubemq.wire.framing.frame_run import FrameRun
from pytubemq.wire.rpc.envelope import Request


class RequestRun(FrameRun[Request]):
    """Requests with consecutive serial numbers; see `frame_run`."""

    __slots__ = ()

    @property
    def size_bytes(self) -> int:
        """Bytes of all messages."""
        return self.body_bytes * len(self)
