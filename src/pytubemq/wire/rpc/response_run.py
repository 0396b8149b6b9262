"""Consecutive responses that differ in serial number and message alone."""

from __future__ import annotations

from pytubemq.wire.framing.frame_run import FrameRun
from pytubemq.wire.rpc.envelope import Response


class ResponseRun(FrameRun[Response]):
    """Responses to consecutive serial numbers; see `frame_run`."""

    __slots__ = ()
