"""A producer's messages from the moment they are accepted to their end: which partition, which Broker, what next.

The invariants: what is buffered is bounded in messages and bytes; every accepted message ends with a receipt or an
error; one whose Broker may have it goes nowhere else, where that Broker knows a repeat by its number.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pytubemq.client.buffer import Buffer
from pytubemq.client.bunch import Bunch
from pytubemq.client.flight import Numbers
from pytubemq.client.lane import EAGER_SINGLES, Lane
from pytubemq.client.parcel import Lot, Parcel
from pytubemq.client.pending import Pending, check_key, final_error, find_partition
from pytubemq.client.tasks import Tasks
from pytubemq.core.retry import may_retry
from pytubemq.core.routing import Router
from pytubemq.errors import (
    ClosedError,
    Code,
    NotFoundError,
    ServerOverflowError,
    TransportError,
    TubeError,
    UnavailableError,
)
from pytubemq.model.ids import Partition
from pytubemq.model.limits import DEFAULT_MAX_MESSAGE_BYTES, MAX_PACK_BYTES, MAX_PACK_MESSAGES, UNANSWERED_BROKER_S
from pytubemq.model.names import check_topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.client.cluster import Cluster
    from pytubemq.client.many import EncodedMany
    from pytubemq.client.options import ProducerOptions
    from pytubemq.client.pending import Encoded, Unit
    from pytubemq.client.receipts import Receipts
    from pytubemq.client.routes import TopicRoutes
    from pytubemq.model.message import Receipt

SWEEP_S = 0.5
OVERDUE_CHECK_S = UNANSWERED_BROKER_S / 10
"""Period in seconds of the check for Brokers that have not answered."""
_PLAIN = (0, None, None)
"""Flag, type and time of a message that has none."""


class Outgoing:
    """What a producer has accepted and not yet answered; a `LaneOwner`."""

    def __init__(self, cluster: Cluster, topic: str, options: ProducerOptions, producer_id: int | None) -> None:
        self.topic = check_topic(topic)
        self.cluster = cluster
        self.client_id = ""
        self.request_timeout_s = cluster.options.request_timeout_s
        self.linger_s = options.linger_s
        self.batching = options.batching
        self.numbers = Numbers(producer_id)
        self.tasks = Tasks(self._fail)
        self.buffer = Buffer(max_messages=options.max_buffer_messages, max_bytes=options.max_buffer_bytes)
        self._options = options
        self._delivery_timeout_s = options.delivery_timeout_s
        self._router = Router(rng=cluster.rng)
        self._loop: asyncio.AbstractEventLoop
        """From when it is entered."""
        self._lanes: dict[int, Lane] = {}
        self._filling: Partition | None = None
        """Where messages that may go anywhere are gathered, so that packs are full."""
        self._room_messages = self._room_bytes = 0
        """What may still go there before it is another's turn."""
        self._next_check_s = 0.0
        """When to look again for Brokers that do not respond."""
        self._bunch: Bunch | None = None
        """Plain messages that are gathered until the lane takes them; it expects them."""
        self._max_message_bytes = DEFAULT_MAX_MESSAGE_BYTES
        self._refusal: TubeError | None = ClosedError("the producer is not open", hint="use it inside `async with`")
        self._sweeper: asyncio.TimerHandle | None = None
        self._submitted = 0
        self._delivered = 0
        self._failed = 0
        self._retried = 0
        self._uncertain = 0

    def enqueue(
        self, encoded: Encoded, *, key: bytes | str | None = None, partition: Partition | int | None = None
    ) -> asyncio.Future[Receipt]:
        """Queue a message that is ready to go.

        Raises:
            BufferFullError: no room.
            NotFoundError: no such partition, or none at all.
        """
        if self._refusal is not None:
            raise self._refusal
        if key is None and partition is None and encoded[1:] == _PLAIN:
            return self.enqueue_plain(encoded[0])
        self.hand_over()
        now_s = self._loop.time()
        if key is None and partition is None:
            route: bytes | Partition | None = None
            chosen = self._choose(now_s, len(encoded[0]))
        else:
            route, chosen = self._pick(key, partition)
        return self._enqueue_alone(encoded, chosen, route, now_s)

    def enqueue_plain(self, payload: bytes) -> asyncio.Future[Receipt]:
        """`enqueue` for a message that goes to any partition and has no flag, type or time.

        Raises:
            BufferFullError: no room.
            NotFoundError: there is no partition.
        """
        bunch, size_bytes, buffer = self._bunch, len(payload), self.buffer
        if buffer.messages and (
            buffer.messages >= buffer.max_messages or buffer.size_bytes + size_bytes > buffer.max_bytes
        ):
            raise buffer.full(size_bytes)
        if bunch is None or bunch.room_bytes < size_bytes:
            self.hand_over()
            now_s = self._loop.time()
            chosen = self._choose(now_s, size_bytes)
            if not self._lane(chosen.broker_id).gathers:
                return self._enqueue_alone((payload, *_PLAIN), chosen, None, now_s)
            bunch = self._new_bunch(chosen, now_s, size_bytes)
        buffer.messages += 1
        buffer.size_bytes += size_bytes
        # `create_future` of both usual loops makes the same and takes longer
        future: asyncio.Future[Receipt] = asyncio.Future(loop=self._loop)
        payloads = bunch.payloads
        payloads.append(payload)
        bunch.futures.append(future)
        bunch.room_bytes -= size_bytes
        if len(payloads) >= bunch.most:
            self._bunch = None
            self._count(bunch)
            self._lane(bunch.partition.broker_id).put(bunch)
        return future

    def open_lot(
        self, encoded: EncodedMany, *, key: bytes | str | None = None, partition: Partition | int | None = None
    ) -> Lot:
        """Begin with messages that stay together; `enqueue_pack` queues their packs, one after the other.

        Raises:
            NotFoundError: no such partition, or none at all.
        """
        if self._refusal is not None:
            raise self._refusal
        if key is None and partition is None:
            route: bytes | Partition | None = None
            self.hand_over()
            self._filling = None
            chosen = self._choose(self._loop.time(), MAX_PACK_BYTES)
        else:
            route, chosen = self._pick(key, partition)
        future: asyncio.Future[Receipts] = self._loop.create_future()
        return Lot(encoded, future, chosen, route)

    def enqueue_packs(self, lot: Lot, encoded: EncodedMany, *, start: int, stop: int, at: int) -> None:
        """Queue packs number `start` to before `stop` of a lot, the first message of which is number `at`.

        Raises:
            BufferFullError: no room for all of them.
            TubeError: the producer has ended.
        """
        if self._refusal is not None:
            raise self._refusal
        self.hand_over()
        packs = encoded.packs[start:stop]
        messages = sum(pack.messages for pack in packs)
        self.buffer.add(sum(pack.size_bytes for pack in packs), messages)
        deadline_s = self._loop.time() + self._options.delivery_timeout_s
        lane = self._lane(lot.partition.broker_id)
        for columns, count, size_bytes in packs:
            lane.put(Parcel(lot, at, columns, count, size_bytes, deadline_s, self._submitted + 1))
            self._submitted += count
            at += count
        if self._sweeper is None:
            self._arm_sweeper()

    # --- the lanes call these -------------------------------------------------------------------------------

    def settled(self, messages: int, size_bytes: int, *, delivered: bool = False) -> None:
        """Messages have their result: make room for others."""
        if delivered:
            self._delivered += messages
        self.buffer.remove(messages, size_bytes)

    def refused(self, unit: Unit, error: TubeError) -> bool:
        """Whether a message is sent again after `error`; if not, its future has the error now."""
        limit_s = self._options.delivery_timeout_s
        age_s = self._loop.time() - (unit.deadline_s - limit_s)
        if may_retry(error, age_s=age_s, limit_s=limit_s):
            self._retried += unit.count
            if _is_partitions_own(error):
                self._router.partition_failed(unit.partition, self._loop.time())
            return True
        self._end(unit, final_error(unit, error))
        return False

    def hand_over(self) -> None:
        """Queue what was gathered of the messages that come one behind the other."""
        bunch, self._bunch = self._bunch, None
        if bunch is not None:
            self._count(bunch)
            self._lane(bunch.partition.broker_id).take_in(bunch)

    def drained(self) -> None:
        """A pack has left with all that was gathered: it is the next partition's turn."""
        self._filling = None

    def broker_failed(self, lane: Lane, error: TubeError) -> None:
        """Leave the Broker out for a while, and give its free messages to others if there are any; or only those of a
        partition that it cannot serve."""
        self.hand_over()
        if _is_partitions_own(error):
            self._filling = None
            self._reroute(lane.take_movable(lambda unit: self._router.is_left_out(unit.partition)))
            return
        if not isinstance(error, TransportError | UnavailableError | ServerOverflowError):
            return
        now_s = self._loop.time()
        self._filling = None
        self._router.failed(lane.broker_id, now_s)
        if self._router.open_brokers(now_s) - {lane.broker_id}:
            self._reroute(lane.take_movable())

    def broker_answered(self, lane: Lane) -> None:
        """The Broker serves."""
        self._router.answered(lane.broker_id, self._loop.time())

    # --- inside ---------------------------------------------------------------------------------------------

    def _on_routes(self, routes: TopicRoutes) -> None:
        self._max_message_bytes = routes.max_message_bytes
        self.hand_over()
        self._filling = None
        gone = self._router.update(routes.partitions, asyncio.get_running_loop().time())
        for lane in list(self._lanes.values()) if gone else ():
            self._reroute(
                lane.take_all(
                    lambda unit, lane=lane: (
                        unit.partition in gone  # type: ignore[misc]
                        and not isinstance(_route_of(unit), Partition)
                        and not lane.keeps(unit)
                        and not (isinstance(unit, Parcel) and unit.lot.started)
                    )
                )
            )
        for lane in self._lanes.values():
            lane.kick()

    def _enqueue_alone(
        self, encoded: Encoded, chosen: Partition, route: bytes | Partition | None, now_s: float
    ) -> asyncio.Future[Receipt]:
        self.buffer.add(len(encoded[0]))
        future: asyncio.Future[Receipt] = self._loop.create_future()
        self._submitted = order = self._submitted + 1
        pending = Pending(encoded, future, chosen, route, now_s + self._delivery_timeout_s, order)
        if self._sweeper is None:
            self._arm_sweeper()
        lane = self._lanes.get(chosen.broker_id)
        if lane is None:
            lane = self._lane(chosen.broker_id)
        lane.put(pending)
        return future

    def _new_bunch(self, chosen: Partition, now_s: float, size_bytes: int) -> Bunch:
        """For a message of that size, and others behind it."""
        if chosen is self._filling:  # the message that has led here is taken off already
            most, most_bytes = self._room_messages + 1, self._room_bytes + size_bytes
        else:
            most, most_bytes = EAGER_SINGLES, MAX_PACK_BYTES
        self._lane(chosen.broker_id).expect()
        bunch = self._bunch = Bunch(
            chosen,
            now_s + self._delivery_timeout_s,
            self._submitted + 1,
            most=most,
            room_bytes=max(most_bytes, size_bytes),
        )
        if self._sweeper is None:
            self._arm_sweeper()
        return bunch

    def _count(self, bunch: Bunch) -> None:
        """It is complete."""
        count = bunch.count
        bunch.size_bytes = sum(map(len, bunch.payloads))
        self._submitted += count
        if bunch.partition is self._filling:
            self._room_messages = bunch.most - count
            self._room_bytes = bunch.room_bytes

    def _choose(self, now_s: float, size_bytes: int) -> Partition:
        """The partition for a message that may go to any."""
        if now_s >= self._next_check_s:
            self._check_overdue(now_s)
        chosen = self._filling
        if chosen is not None and self._room_messages > 0 and self._room_bytes >= size_bytes:
            self._room_messages -= 1
            self._room_bytes -= size_bytes
            return chosen
        chosen = self._router.choose(now_s)
        if chosen is None:
            raise self._no_partition()
        lane = self._lanes.get(chosen.broker_id)
        if lane is not None and lane.packs:
            self._filling = chosen
            self._room_messages = MAX_PACK_MESSAGES - 1
            self._room_bytes = MAX_PACK_BYTES - size_bytes
        return chosen

    def _check_overdue(self, now_s: float) -> None:
        """Have Brokers passed over that do not respond; what waits for them stays there, for the sake of its order."""
        self._next_check_s = now_s + OVERDUE_CHECK_S
        awaited = {lane.broker_id: since_s for lane in self._lanes.values() if (since_s := lane.awaited_since_s)}
        if self._router.overdue(awaited, now_s):
            self._filling = None

    def _pick(self, key: bytes | str | None, partition: Partition | int | None) -> tuple[bytes | Partition, Partition]:
        if partition is not None:
            if not self._router.partitions:
                raise self._no_partition()
            found = find_partition(partition, self._router.partitions, self.topic)
            return found, found
        raw = b"" if key is None else check_key(key)
        chosen = self._router.for_key(raw)
        if chosen is None:
            raise self._no_partition()
        return raw, chosen

    def _no_partition(self) -> NotFoundError:
        return NotFoundError(f"topic {self.topic!r} has no partition now", code=Code.NO_PARTITION_AVAILABLE)

    def _lane(self, broker_id: int) -> Lane:
        lane = self._lanes.get(broker_id)
        if lane is None:
            lane = self._lanes[broker_id] = Lane(self, broker_id)
        return lane

    def _reroute(self, moved: Sequence[Unit]) -> None:
        now_s = self._loop.time()
        lots: set[Lot] = set()
        for unit in moved:
            key = _route_of(unit)
            if isinstance(unit, Parcel) and unit.lot in lots:
                chosen = unit.partition
            else:
                chosen = self._router.choose(now_s, key if isinstance(key, bytes) else None) or unit.partition
            if isinstance(unit, Parcel):
                lots.add(unit.lot)
                unit.lot.partition = chosen
            else:
                unit.partition = chosen
            unit.sequence = None  # it is another partition's message now, and was surely not taken where it was
            unit.uncertain = False
            self._lane(chosen.broker_id).put(unit)

    async def _settle(self) -> None:
        while self.buffer.messages:
            await self.buffer.changed()

    def _arm_sweeper(self) -> None:
        period_s = min(SWEEP_S, self._options.delivery_timeout_s / 4)
        self._sweeper = self._loop.call_later(period_s, self._sweep)

    def _sweep(self) -> None:
        """Messages that wait in a queue end at their deadline, too."""
        self._sweeper = None
        now_s = self._loop.time()
        self.hand_over()
        for lane in self._lanes.values():
            for unit in lane.expire(now_s):
                self._end(unit, final_error(unit, unit.cause))
                self.settled(unit.count, unit.size_bytes)
        if self.buffer.messages:
            self._arm_sweeper()

    def _end(self, unit: Unit, error: TubeError) -> None:
        failed = unit.fail(error)
        self._failed += failed
        if unit.uncertain:
            self._uncertain += failed

    def _fail(self, error: BaseException) -> None:
        """A task of ours died: everything fails with its reason."""
        self._refusal = error if isinstance(error, TubeError) else TubeError(f"the producer failed: {error!r}")
        self._abandon(self._refusal)

    def _abandon(self, error: TubeError) -> None:
        self.hand_over()
        for lane in self._lanes.values():
            for unit in lane.abandon():
                self._end(unit, error)
                self.settled(unit.count, unit.size_bytes)
        self.buffer.wake()


def _is_partitions_own(error: TubeError) -> bool:
    """Whether a Broker that serves says it of one partition, as of one whose files are damaged."""
    return isinstance(error, UnavailableError) and error.code == Code.INTERNAL_SERVER_ERROR


def _route_of(unit: Unit) -> bytes | Partition | None:
    if isinstance(unit, Bunch):
        return None
    return unit.lot.route if isinstance(unit, Parcel) else unit.route
