"""The rows of one task on their way: several packs at once, of several topics, in bounded memory.

The invariants: what is sent and not yet acknowledged is bounded over all topics together; `finish` returns only when
every row was acknowledged; whatever fails ends the task with an error that says which rows of which topic.
"""

from __future__ import annotations

from collections import deque
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.client.producer.messages.batch_encoding import EncodedBatches
from pytubemq.client.producer.receipts import Receipts
from pytubemq.errors import MessageError, PartialSendError, TubeError
from pytubemq.model.limits import MAX_RECORD_BATCH_BYTES, MAX_RECORD_BATCH_MESSAGES
from pytubemq.model.message import Receipt
from pytubemq.spark.sink.duplicate_check import SingleRepeats, check_repeats
from pytubemq.spark.sink.partition_choice import Stripes, for_key
from pytubemq.spark.sink.payloads import payload_of_one, payloads
from pytubemq.wire.protocol.extensions import Capability

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future
    from types import TracebackType
    from typing import Any

    from pytubemq.client.sync.producer import Producer
    from pytubemq.model.ids import Partition
    from pytubemq.spark.sink.identity import Identity
    from pytubemq.spark.sink.options import SinkOptions
    from pytubemq.spark.sink.rows import Rows
    from pytubemq.sync import Tube

MAX_UNANSWERED: Final = 200_000
"""Messages of a task sent and not yet acknowledged."""
FEW: Final = 8
"""Up to so many messages in a row go one by one; they are packed with their neighbours on the way."""
_DROPS_REPEATS: Final = Capability.IDEMPOTENT | Capability.READ_RANGE
"""Capabilities of a Broker that detects duplicates by sequence and can show the stored message. Java Brokers have
neither.
"""
_ANSWER_GRACE_S: Final = 30.0
"""Beyond the delivery timeout, by which every message ends in its producer: nothing hangs if that fails."""


class Sent(NamedTuple):
    """The result of a task."""

    messages: int
    size_bytes: int
    repeated: int
    """Messages that the Broker had already, from an earlier try."""


class _InFlight(NamedTuple):
    """An in-flight send: messages that left together."""

    topic: str
    rows: Sequence[int]
    encoded: EncodedBatches | tuple[bytes, int, str | None, str | None]
    future: Future[Any]
    messages: int
    size_bytes: int


class Sending:
    """Sends the rows of one task. Use it with `with`."""

    def __init__(
        self,
        tube: Tube,
        options: SinkOptions,
        *,
        where: str,
        identity: Identity | None = None,
        partitions: Sequence[Partition] = (),
    ) -> None:
        """Create the sender of one task.

        Args:
            tube: the connection.
            options: the sink's.
            where: names the task in errors.
            identity: of the task, in idempotent mode.
            partitions: of the topic that the options name, as the driver knows them; () asks the producer.
        """
        self._tube = tube
        self._options = options
        self._where = where
        self._identity = identity
        self._numbered = identity is not None and options.plan_is_map_only
        self._lead: str | None = None
        if identity is not None:
            self._lead = identity.by_number() if self._numbered else identity.by_key()
        self._fixed_type = options.msg_type
        if options.encoder is not None and options.msg_type is None:
            self._fixed_type = options.encoder.stream_id
        self._partitions = partitions
        self._producers: dict[str, Producer] = {}
        self._in_flight: deque[_InFlight] = deque()
        self._single_repeats = SingleRepeats(tube, where)
        self._met: set[tuple[str, int]] = set()
        """Topic and Broker of what has landed."""
        self._messages = self._size_bytes = 0
        self._sent = Sent(0, 0, 0)

    def __enter__(self) -> Sending:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for sent_rows in self._in_flight:
            sent_rows.future.cancel()  # nobody waits any more; what has left may arrive
        self._in_flight.clear()
        for producer in self._producers.values():
            producer.close()

    @property
    def unanswered_bytes(self) -> int:
        """Bytes sent and not acknowledged yet."""
        return self._size_bytes

    def put(self, rows: Rows) -> None:
        """Send rows, as far as there is room at once; the others when there is.

        Raises:
            MessageError: one of them cannot be sent.
            TubeError: earlier ones were not delivered.
        """
        if rows.topics is None:
            assert self._options.topic is not None
            self._put(self._options.topic, rows, range(len(rows)))
            return
        of_topic: dict[str, list[int]] = {}
        for at, topic in enumerate(rows.topics):
            of_topic.setdefault(topic, []).append(at)
        for topic, places in of_topic.items():
            self._put(topic, rows, places)

    def finish(self) -> Sent:
        """Wait until all is acknowledged.

        Raises:
            TubeError: some rows were not delivered.
            ConfigError: a row's number was given to another one before.
        """
        while self._in_flight:
            self._land()
        self._single_repeats.compare()
        return self._sent

    # --- inside ---------------------------------------------------------------------------------------------

    def _put(self, topic: str, rows: Rows, places: Sequence[int]) -> None:
        producer = self._producer(topic)
        partitions = self._partitions if topic == self._options.topic and self._partitions else producer.partitions
        for target, together in self._targets(rows, places, partitions):
            for msg_type, msg_time, run in self._runs(rows, together, in_order=target is not None):
                if rows.attributes is None and (len(run) > FEW or target is None):
                    self._send_together(topic, rows, run, msg_type, msg_time, target)
                else:
                    self._send_mixed(topic, rows, run, msg_type, msg_time, target)

    def _targets(
        self, rows: Rows, places: Sequence[int], partitions: Sequence[Partition]
    ) -> Iterator[tuple[Partition | int | None, Sequence[int]]]:
        """Group rows by the partition that they have to go to, each in order; None: to any."""
        hints, keys, ids = rows.partitions, rows.keys, rows.ids
        stripes = Stripes(self._identity, partitions) if self._numbered and self._identity and partitions else None
        if hints is None and keys is None and ids is None:
            if stripes is None:
                yield None, places
            elif isinstance(places, range):
                yield from stripes.divide(rows.first, len(rows))
            else:
                for target, part in groupby(places, lambda at: stripes.place(rows.first + at)):
                    yield target, list(part)
            return
        targets: dict[Partition | int | None, list[int]] = {}
        for at in places:
            where: Partition | int | None = hints[at] if hints is not None else None
            if where is None and partitions:
                key = keys[at] if keys is not None else None
                if key is None and ids is not None:
                    key = ids[at].encode()
                if key is not None:
                    where = for_key(key, partitions)
                elif stripes is not None:
                    where = stripes.place(rows.first + at)
            targets.setdefault(where, []).append(at)
        yield from targets.items()

    def _runs(
        self, rows: Rows, places: Sequence[int], *, in_order: bool
    ) -> Iterator[tuple[str | None, str | None, Sequence[int]]]:
        """Group rows by type and time; where their order counts, only those that follow each other."""
        types, times, fixed = rows.types, rows.times, self._fixed_type
        if types is None and times is None:
            yield fixed, None, places
            return

        def kind(at: int) -> tuple[str | None, str | None]:
            return fixed if types is None else types[at], None if times is None else times[at]

        if in_order:
            for (msg_type, msg_time), run in groupby(places, kind):
                yield msg_type, msg_time, list(run)
            return
        groups: dict[tuple[str | None, str | None], list[int]] = {}
        for at in places:
            groups.setdefault(kind(at), []).append(at)
        for (msg_type, msg_time), group in groups.items():
            yield msg_type, msg_time, group

    def _end(self, rows: Rows, at: int) -> object:
        """Return the end of the identity's attributes of a row."""
        return rows.first + at if rows.ids is None else rows.ids[at]

    def _send_together(
        self,
        topic: str,
        rows: Rows,
        places: Sequence[int],
        msg_type: str | None,
        msg_time: str | None,
        target: Partition | int | None,
    ) -> None:
        producer = self._producer(topic)
        whole = len(places) == len(rows)
        bodies = rows.bodies if whole else [rows.bodies[at] for at in places]
        ends = [self._end(rows, at) for at in places] if self._lead is not None else ()
        made, flag = payloads(bodies, msg_type=msg_type, msg_time=msg_time, identity=self._lead, ends=ends)
        start = 0
        while start < len(made):
            stop = _pack_end(made, start)
            part = made if stop - start == len(made) else made[start:stop]
            some = [rows.first + at for at in places[start:stop]]
            sizes = list(map(len, part))
            longest = sizes.index(max(sizes))
            try:
                producer.check_payload(part[longest], flag)
            except MessageError as error:
                raise self._row_fault(some[longest], error) from error
            encoded = producer.encode_payloads(part, flag=flag, msg_type=msg_type, msg_time=msg_time)
            self._wait_for(encoded.messages, encoded.size_bytes)
            future = producer.submit_encoded(encoded, partition=target)
            self._track(_InFlight(topic, some, encoded, future, encoded.messages, encoded.size_bytes))
            start = stop

    def _send_mixed(
        self,
        topic: str,
        rows: Rows,
        places: Sequence[int],
        msg_type: str | None,
        msg_time: str | None,
        target: Partition | int | None,
    ) -> None:
        producer = self._producer(topic)
        attributes = rows.attributes
        for at in places:
            row = rows.first + at
            try:
                payload, flag = payload_of_one(
                    rows.bodies[at],
                    None if attributes is None else attributes[at],
                    msg_type=msg_type,
                    msg_time=msg_time,
                    identity=self._lead,
                    end=self._end(rows, at),
                )
                producer.check_payload(payload, flag)
            except MessageError as error:
                raise self._row_fault(row, error) from error
            encoded = payload, flag, msg_type, msg_time
            self._wait_for(1, len(payload))
            future = producer.submit_encoded(encoded, partition=target)
            self._track(_InFlight(topic, (row,), encoded, future, 1, len(payload)))

    def _track(self, sent_rows: _InFlight) -> None:
        self._in_flight.append(sent_rows)
        self._messages += sent_rows.messages
        self._size_bytes += sent_rows.size_bytes

    def _wait_for(self, messages: int, size_bytes: int) -> None:
        """Wait until there is room; check what was acknowledged meanwhile, so that a failure is reported soon."""
        most = self._options.max_buffer_bytes
        while self._in_flight and (
            self._in_flight[0].future.done()
            or self._messages + messages > MAX_UNANSWERED
            or self.unanswered_bytes + size_bytes > most
        ):
            self._land()

    def _land(self) -> None:
        sent_rows = self._in_flight[0]
        try:
            receipts = sent_rows.future.result(self._options.delivery_timeout_s + _ANSWER_GRACE_S)
        except TubeError as error:
            raise self._not_delivered(sent_rows, error) from error
        repeated = int(receipts.repeated)
        if self._numbered:
            self._compare(sent_rows, receipts)
        self._in_flight.popleft()
        self._messages -= sent_rows.messages
        self._size_bytes -= sent_rows.size_bytes
        sent = self._sent
        self._sent = Sent(
            sent.messages + sent_rows.messages, sent.size_bytes + sent_rows.size_bytes, sent.repeated + repeated
        )

    def _compare(self, sent_rows: _InFlight, receipts: Receipts | Receipt) -> None:
        """See to it that what was there already is the same."""
        partition = receipts.partition
        unmarked = False
        if (sent_rows.topic, partition.broker_id) not in self._met:
            # the first request over a connection is one whose response marks no duplicate
            self._met.add((sent_rows.topic, partition.broker_id))
            unmarked = _DROPS_REPEATS in self._tube.capabilities([partition])[partition.broker_id]
        if isinstance(sent_rows.encoded, EncodedBatches):
            assert isinstance(receipts, Receipts)
            check_repeats(self._tube, receipts, sent_rows.encoded, sent_rows.rows, self._where, unmarked=unmarked)
        else:
            assert isinstance(receipts, Receipt)
            payload, flag, _, _ = sent_rows.encoded
            self._single_repeats.add(receipts, payload, flag, sent_rows.rows[0], unmarked=unmarked)

    def _not_delivered(self, sent_rows: _InFlight, error: TubeError) -> TubeError:
        lost = len(error.failed) if isinstance(error, PartialSendError) else sent_rows.messages
        cause = next(iter(error.failed.values())) if isinstance(error, PartialSendError) else error
        rows = (
            f"row {sent_rows.rows[0]}"
            if sent_rows.messages == 1
            else f"{lost:,} of rows {sent_rows.rows[0]} to {sent_rows.rows[-1]}"
        )
        return TubeError(
            f"{rows} of {self._where} not delivered to topic {sent_rows.topic!r}: {cause.message}; "
            "some of this task's other rows may have been delivered",
            hint=cause.hint,
            code=cause.code,
        )

    def _row_fault(self, row: int, error: MessageError) -> MessageError:
        return MessageError(f"row {row} of {self._where}: {error.message}", hint=error.hint, code=error.code)

    def _producer(self, topic: str) -> Producer:
        producer = self._producers.get(topic)
        if producer is None:
            options = self._options
            producer = self._tube.producer(
                topic,
                max_buffer_messages=2 * MAX_UNANSWERED,
                max_buffer_bytes=2 * options.max_buffer_bytes,
                delivery_timeout_s=options.delivery_timeout_s,
                close_timeout_s=1.0,
            )
            if self._numbered and self._identity is not None:
                producer.number_as(self._identity.producer_id(), self._identity.epoch)
            self._producers[topic] = producer.__enter__()
        return producer


def _pack_end(made: Sequence[bytes], start: int) -> int:
    """Return the end of the pack that begins at `start`."""
    stop = min(start + MAX_RECORD_BATCH_MESSAGES, len(made))
    size_bytes = 0
    for at in range(start, stop):
        size_bytes += len(made[at])
        if size_bytes > MAX_RECORD_BATCH_BYTES and at > start:
            return at
    return stop
