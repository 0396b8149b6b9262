"""One message between `submit` and its receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

    from pytubemq.client.producer.messages.message_checks import Encoded
    from pytubemq.errors import TubeError
    from pytubemq.model.ids import Partition
    from pytubemq.model.message import Receipt


class PendingMessage:
    """One message without a result. `route` is None (any partition), a key, or the requested partition."""

    __slots__ = (
        "cause",
        "deadline_s",
        "flag",
        "future",
        "msg_time",
        "msg_type",
        "order",
        "partition",
        "payload",
        "route",
        "sequence",
        "size_bytes",
        "tries",
        "uncertain",
    )
    count: Final = 1

    def __init__(
        self,
        encoded: Encoded,
        future: asyncio.Future[Receipt],
        partition: Partition,
        route: bytes | Partition | None,
        deadline_s: float,
        order: int,
    ) -> None:
        self.payload, self.flag, self.msg_type, self.msg_time = encoded
        self.size_bytes = len(self.payload)
        self.future = future
        self.partition = partition
        self.route = route
        self.deadline_s = deadline_s
        self.order = order
        self.sequence: int | None = None
        """Its sequence number in the partition, set when it is first sent."""
        self.tries = 0
        self.cause: BaseException | None = None
        self.uncertain = False
        """True if it was sent and its outcome is unknown: the Broker may have it."""

    @property
    def may_move(self) -> bool:
        """True if it may go to any partition."""
        return self.route is None

    @property
    def unwanted(self) -> bool:
        """True if nobody waits for its result."""
        return self.future.done()

    def fail(self, error: TubeError) -> int:
        """Fail with `error`; return the number of results that were waited for, 0 or 1."""
        if self.future.done():
            return 0
        self.future.set_exception(error)
        return 1
