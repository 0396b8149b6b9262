"""`/metrics` and `/health`, the routes for monitoring, on any server's HTTP.

The invariant: state is collected on the event loop and rendered off it, so that a scrape of a thousand topics delays
nobody; a server that does not run yet responds with 503.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from pytubemq.errors import ClosedError, UnavailableError
from pytubemq.observe.process import PROCESS_METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request

    from pytubemq.observe.metrics import Meter

NOT_RUNNING = HTTPStatus.SERVICE_UNAVAILABLE


def metrics_route(facts: Callable[[], Meter]) -> Route:
    """Return the route `/metrics`; `facts` gathers the state that the metrics are read from."""
    turn = asyncio.Lock()  # one scrape at a time, however many clients send one

    def read(meter: Meter) -> tuple[bytes, str]:
        # Loading it takes a tenth of a second, which nobody else has to wait for.
        from pytubemq.observe.prometheus import CONTENT_TYPE, render

        process = (source.reading(None) for source in PROCESS_METRICS)
        return render(chain(process, meter.readings())), CONTENT_TYPE

    async def metrics(_: Request) -> Response:
        async with turn:
            try:
                meter = facts()
            except (ClosedError, UnavailableError) as error:
                return Response(f"{error.message}\n", NOT_RUNNING, media_type="text/plain")
            text, content_type = await asyncio.to_thread(read, meter)
        return Response(text, headers={"content-type": content_type})

    return Route("/metrics", metrics)


def health_route(health: Callable[[], Mapping[str, Any]]) -> Route:
    """Return the route `/health`: 503 if `status` is `failed`, so that a balancer or an orchestrator can act on it."""

    async def answer(_: Request) -> Response:
        found = health()
        status = NOT_RUNNING if found["status"] == "failed" else HTTPStatus.OK
        return Response(msgspec.json.encode(found), status, media_type="application/json")

    return Route("/health", answer)
