"""Retries of requests that change nothing, so that a repeat is harmless.

The invariant: an error that is not transient is raised at once; another is raised when the time is over.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from pytubemq.client.session.cluster_connection import is_refusal
from pytubemq.core.retry import BRIEF_S, Backoff, Rng, Verdict, refused_since_s, verdict
from pytubemq.errors import Code, TubeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

PAUSES = Backoff(first_s=0.05, most_s=1.0)


async def call_with_retry(
    attempt: Callable[[], Awaitable[T]],
    *,
    for_s: float,
    rng: Rng,
    briefly_too: bool = False,
    renew_token: Callable[[], Awaitable[None]] | None = None,
) -> T:
    """Return the result of `attempt`, retried after retriable errors for up to `for_s`.

    `briefly_too` tries again after 403 and 404, too, for at most `BRIEF_S` since the first of them in a row. So does
    `renew_token` after 415, which a Broker answers to a visit token that it does not know, once it has fetched what the
    Master gives out now.
    """
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    tries = 0
    since_s: float | None = None
    while True:
        try:
            return await attempt()
        except TubeError as error:
            tries += 1
            brief = briefly_too
            if renew_token is not None and is_refusal(error, Code.CERTIFICATE_FAILURE):
                await renew_token()
                brief = True
            pause_s = PAUSES.delay_s(tries, rng)
            goes_on_s = loop.time() + pause_s
            since_s = refused_since_s(error, loop.time(), since_s)
            is_over = since_s is not None and (not brief or goes_on_s - since_s > BRIEF_S)
            if verdict(error) is Verdict.GIVE_UP or is_over or goes_on_s - began_s > for_s:
                raise
            await asyncio.sleep(pause_s)
