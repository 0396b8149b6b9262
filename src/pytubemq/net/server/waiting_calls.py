"""A bound on the calls of one connection that wait in the queues of long work.

The invariant: beyond it a call is refused before anything is kept for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.model.limits import MAX_LONG_CALLS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from pytubemq.net.server.call import Call, Handler

_KEY: Final = "net.waiting_calls"


def bounded(handler: Callable[[Call], Coroutine[Any, Any, None]], refusal: Callable[[str], bytes]) -> Handler:
    """Return a handler that refuses calls of a connection of which many wait; such handlers count together.

    `refusal` makes the response from a text.
    """

    def handle(call: Call) -> Coroutine[Any, Any, None] | None:
        context = call.connection.context
        waiting = context.get(_KEY, 0)
        if waiting >= MAX_LONG_CALLS:
            call.reply(
                refusal(f"{waiting} requests of this connection are being worked on, which is the limit; retry later")
            )
            return None
        context[_KEY] = waiting + 1
        return serve(call)

    async def serve(call: Call) -> None:
        try:
            await handler(call)
        finally:
            call.connection.context[_KEY] -= 1

    return handle
