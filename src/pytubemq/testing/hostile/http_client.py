"""A client that sends bad HTTP requests to a Master or a Broker, and judges the answers.

The invariants: every case ends within a bounded time, with an answer or with the end of its connection; else it is a
problem. A server that left one without either is not sent more, so a run with it is bounded, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import deque
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from pytubemq.testing.hostile.http_cases import make_http_case

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.model.ids import Address
    from pytubemq.testing.hostile.http_cases import Call, HttpCase
    from pytubemq.testing.hostile.values import Scene

KEPT: Final = 100
"""Cases that are kept for the report of a failure."""
TOGETHER: Final = 12
"""Connections at the same time."""
ANSWER_WAIT_S: Final = 60.0
"""A server that has not answered or closed by then does neither; its own limit is far shorter."""
MOST_ANSWER_BYTES: Final = 8 << 20
UNAVAILABLE: Final = frozenset(
    {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT, HTTPStatus.INSUFFICIENT_STORAGE}
)
"""What a server may answer beyond 4xx: a Broker, or the room, that a sound request needs is not there."""
_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
_LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length: *([0-9]+)")


class HostileHttpClient:
    """Sends cases over connections of their own; `problems` has the answers that no server should give."""

    def __init__(self, address: Address, seed: int, calls: Sequence[Call], scene: Scene) -> None:
        self.address = address
        self.seed = seed
        self.scene = scene
        self.calls = calls
        self.cases = 0
        self.answers: dict[int, int] = {}
        """How often each status was answered."""
        self.problems: list[str] = []
        self.last: deque[HttpCase] = deque(maxlen=KEPT)
        self._gate = asyncio.Semaphore(TOGETHER)
        self._silent = False
        """The server has left a case without an answer and without an end."""

    async def run(self, cases: int) -> None:
        """Send this many cases, some at the same time; returns when each is answered or closed.

        It returns earlier, with a problem, if the server does neither for one of them.
        """
        async with asyncio.TaskGroup() as group:
            for _ in range(cases):
                await self._gate.acquire()
                if self._silent:
                    self._gate.release()
                    return
                case = make_http_case(self.cases, self.seed, self.calls, self.scene)
                self.cases += 1
                self.last.append(case)
                group.create_task(self._one(case))

    async def _one(self, case: HttpCase) -> None:
        try:
            answer = await self._answer(case)
        except TimeoutError:
            self._silent = True
            self._problem(case, f"neither an answer nor an end within {ANSWER_WAIT_S:g} s")
        else:
            self._judge(case, answer)
        finally:
            self._gate.release()

    async def _answer(self, case: HttpCase) -> bytes:
        """Send a case, and return all that comes until the server ends the connection."""
        async with asyncio.timeout(ANSWER_WAIT_S):
            reader, writer = await asyncio.open_connection(self.address.host, self.address.port)
        answer = bytearray()
        try:
            with contextlib.suppress(ConnectionError):
                for piece in case.pieces:
                    if writer.transport.is_closing():
                        break
                    writer.write(piece)
                    await asyncio.sleep(0)
            if not case.leaves:
                async with asyncio.timeout(ANSWER_WAIT_S):
                    with contextlib.suppress(ConnectionError):
                        while data := await reader.read(1 << 16):
                            answer += data[: MOST_ANSWER_BYTES - len(answer)]
        finally:
            writer.transport.abort()
        return bytes(answer)

    def _judge(self, case: HttpCase, answer: bytes) -> None:
        found = _STATUS.match(answer)
        if found is None:
            if answer:
                self._problem(case, f"no HTTP: {answer[:200]!r}")
            return
        status = int(found[1])
        self.answers[status] = self.answers.get(status, 0) + 1
        head, _, body = answer.partition(b"\r\n\r\n")
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR and status not in UNAVAILABLE:
            self._problem(case, f"{head[:200]!r} {body[:600]!r}")
        elif status >= HTTPStatus.BAD_REQUEST and b" " not in body and b"HEAD" not in case.pieces[0][:40]:
            declared = _LENGTH.search(head)
            if declared is not None and len(body) < int(declared[1]):
                return  # the server closed while it was still being sent to, and the reset took the body
            self._problem(case, f"{status} without a sentence: {body[:200]!r}")

    def _problem(self, case: HttpCase, what: str) -> None:
        if len(self.problems) < KEPT:
            self.problems.append(f"case {case.number} ({case.how}): {what}; sent {case.pieces[0][:600]!r}")
