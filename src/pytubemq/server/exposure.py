"""The text that says what `insecure = true` leaves open, and the line in the log that repeats them every hour.

The invariant: the words name settings of this server that are as they say, and none that protects it already.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from pytubemq.security.authentication_mode import AuthenticationMode
from pytubemq.security.token_strength import MIN_BITS, estimate_bits

if TYPE_CHECKING:
    from pytubemq.server.settings import Settings

logger = logging.getLogger(__name__)

REMINDER_PERIOD_S: Final = 3_600.0
"""The time between two lines in the log that say that the server is open."""


def exposure(settings: Settings) -> str:
    """Return what `insecure = true` leaves open, as one sentence; blank where it is not set."""
    if not settings.insecure:
        return ""
    found = [*_callers(settings), *_readers(settings)]
    token = settings.http.token.strip()
    if token and estimate_bits(token) < MIN_BITS:
        found.append("http.token can be guessed")
    return f"insecure = true: {'; '.join(found) or 'no other setting needs it, so remove it'}"


def _callers(settings: Settings) -> list[str]:
    mode = settings.security.authentication
    if mode is AuthenticationMode.ENFORCED:
        return []
    does = "asks nobody who it is" if mode is AuthenticationMode.OFF else "refuses nobody"
    return [f'anyone who can reach this server may use it, as security.authentication = "{mode}" {does}']


def _readers(settings: Settings) -> list[str]:
    without = [name for name, is_open in (("the protocol", settings.tls.plain), ("HTTP", not settings.http.tls_cert))
               if is_open]  # fmt: skip
    if not without:
        return []
    return [f"who can read the network reads what passes over {' and '.join(without)}, as it may be without TLS"]


class ExposureReminder:
    """A warning in the log at the start and every hour, while a server is open by its settings."""

    def __init__(self, settings: Settings) -> None:
        self._text = exposure(settings)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Log the first line, and one every hour from now on until `close`; none where the server is not open."""
        if self._text:
            logger.warning("%s", self._text)
            self._task = asyncio.get_running_loop().create_task(self._repeat(), name="reminder of insecure = true")

    async def close(self) -> None:
        """Stop. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(REMINDER_PERIOD_S)
            logger.warning("%s", self._text)
