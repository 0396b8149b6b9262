"""Reads of ranges of partitions in columns, over a connection of their own, for callers without an event loop.

The invariants: messages are in order and without gap, and end with an error at the first one that cannot be read; while
the caller handles a response the Broker reads on, one response ahead.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.client.received.columns import Gathered, gather
from pytubemq.client.received.unpacker import MAX_CONTRADICTIONS, contradiction_error, unreadable_error
from pytubemq.client.session.cluster_connection import check
from pytubemq.client.session.process import new_client_id
from pytubemq.errors import Code, ConfigError, CorruptError, EnvelopeError, OffsetMovedError
from pytubemq.model.ids import Address
from pytubemq.model.limits import DEFAULT_REQUEST_TIMEOUT_S
from pytubemq.model.offset import messages_between
from pytubemq.net.client.blocking import BlockingConnection
from pytubemq.security.client_token import issued_s
from pytubemq.wire.batch.fetch_batches import check_batches, decode_read_range
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.broker import AuthorizedInfo
from pytubemq.wire.protocol.messages.extension import ReadRangeRequestC2B
from pytubemq.wire.rpc.methods import Method, Service
from pytubemq.wire.serialization.message_bytes import encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.client.partition_state import Known
    from pytubemq.model.ids import Partition
    from pytubemq.model.tls_options import TlsOptions

MAX_WAIT_S: Final = 1.0
"""How long the Broker may hold a request for messages that are not there yet."""


@dataclass(frozen=True, slots=True)
class RangeWay:
    """The parameters to request ranges from a Broker."""

    address: Address
    client_id: str
    auth_info: AuthorizedInfo
    request_timeout_s: float
    tls: TlsOptions | None = None

    @classmethod
    def known(cls, known: Known, broker_id: int, *, client_name: str, tls: TlsOptions | None = None) -> RangeWay | None:
        """Return the parameters by the state of another process; None if it does not know the Broker."""
        for broker, host, port in known.brokers:
            if broker == broker_id:
                return cls(
                    Address(host, port),
                    known.client_id or new_client_id(platform.node() or "localhost", name=client_name),
                    AuthorizedInfo(
                        visit_authorized_token=known.visit_token, auth_authorized_token=known.client_token or None
                    ),
                    DEFAULT_REQUEST_TIMEOUT_S,
                    tls,
                )
        return None

    def connect(self) -> RangeConnection:
        """Return a connection to the Broker.

        Raises:
            TransportError: it is away.
            ConfigError: it is none of ours.
        """
        connection = BlockingConnection.connect(
            self.address,
            client_id=self.client_id,
            auth_info=self.auth_info,
            request_timeout_s=self.request_timeout_s,
            tls=self.tls,
        )
        if Capability.READ_RANGE not in connection.capabilities:
            connection.close()
            raise ConfigError(
                f"the Broker at {self.address} cannot read a range: it is not a pytubemq Broker",
                hint="read it with a consumer group instead",
            )
        return RangeConnection(self, connection)


class DamagedRangeError(CorruptError):
    """Messages of a range that cannot be read, with where they lie; or where filters are set, lie among others."""

    def __init__(self, message: str, *, hint: str, start: int, end: int) -> None:
        super().__init__(message, hint=hint)
        self.start = start
        self.end = end


class Stretch(NamedTuple):
    """Rows of a range, and the offset at which the next ones begin."""

    rows: Gathered
    next_offset: int


@dataclass(frozen=True, slots=True)
class RangeConnection:
    """A connection to a Broker for ranges, one at a time."""

    way: RangeWay
    connection: BlockingConnection

    def close(self) -> None:
        """Close it. Idempotent."""
        self.connection.close()

    def with_tokens_of(self, way: RangeWay | None) -> RangeConnection:
        """Return this connection with the tokens of other parameters if these are newer than its own."""
        if way is None or _issued_s(way) <= _issued_s(self.way):
            return self
        return replace(self, way=replace(self.way, client_id=way.client_id, auth_info=way.auth_info))

    def read(
        self,
        partition: Partition,
        start: int,
        end: int,
        *,
        filters: frozenset[str] = frozenset(),
        max_messages: int,
        max_bytes: int,
    ) -> Iterator[Stretch]:
        """Yield [start, end), which the partition is known to have had; with filters, parts may be empty.

        A part is valid only until the next one is requested.

        Raises:
            OffsetMovedError: the Broker does not have it all (any more).
            DamagedRangeError: a message cannot be read; those before it have been given.
            CorruptError: the Broker's response does not fit the request, or contradicts itself several times.
            ConfigError: the Broker knows no filters.
            TransportError, RefusedError: as for any request.
        """
        if filters and Capability.RANGE_FILTERS not in self.connection.capabilities:
            raise ConfigError(
                f"the Broker {partition.broker_id} at {self.way.address} cannot filter a range by message type",
                hint="upgrade it to this version, or leave the filters out",
            )
        limits = (tuple(sorted(filters)), max_messages, max_bytes)
        at, checked, contradictions = start, False, 0
        if at < end:
            self._request(partition, at, end, *limits)
        while at < end:
            body = self.connection.receive(timeout_s=self._timeout_s)
            try:
                fetched = decode_read_range(body, check=False)
            except EnvelopeError as error:
                if checked:
                    raise unreadable_error(partition, at, error) from error
                checked = True
                self._request(partition, at, end, *limits, check=True)
                continue
            checked = False
            head = fetched.head
            if head.err_code == Code.NOT_FOUND:
                _check_end(partition, end, head.max_offset)
                contradictions += 1
                if contradictions == MAX_CONTRADICTIONS:
                    raise contradiction_error(partition, at, end if head.max_offset is None else head.max_offset)
                self._request(partition, at, end, *limits)
                continue
            contradictions = 0
            check(head, hint=_moved_hint(head.err_code, head.min_offset))
            if head.next_offset is None or head.next_offset <= at:
                raise CorruptError(
                    f"the Broker of {partition} returned messages, but no offset to continue at after {at}"
                )
            upto = min(head.next_offset, end)  # a pack comes whole
            if upto < end:
                self._request(partition, upto, end, *limits)
            fetched = check_batches(fetched)
            rows = gather(fetched.records, fetched.damaged, start=at, end=upto)
            gap = (at, upto) if filters and rows.unreadable else None if filters else rows.gap(at, upto)
            if gap is not None:
                if gap[0] > at:
                    yield Stretch(gather(fetched.records, (), start=at, end=gap[0]), gap[0])
                raise _lost(partition, gap, rows.unreadable)
            yield Stretch(rows, upto)
            at = upto

    @property
    def _timeout_s(self) -> float:
        return self.way.request_timeout_s + MAX_WAIT_S

    def _request(
        self,
        partition: Partition,
        at: int,
        end: int,
        filters: tuple[str, ...],
        max_messages: int,
        max_bytes: int,
        *,
        check: bool = False,
    ) -> None:
        """Request the next part; with `check` the Broker checks each record, since the part was unreadable before."""
        request = ReadRangeRequestC2B(
            client_id=self.way.client_id,
            topic_name=partition.topic,
            partition_id=partition.partition_id,
            offset=at,
            end_offset=end,
            max_messages=max_messages,
            max_bytes=max_bytes,
            max_wait_ms=int(MAX_WAIT_S * 1000),
            auth_info=self.way.auth_info,
            filters=filters,
            check=check or None,
        )
        self.connection.send(Method.READ_RANGE_C2B, Service.BROKER_READ, encode(request), timeout_s=self._timeout_s)


def _issued_s(way: RangeWay) -> int:
    return issued_s(way.auth_info.auth_authorized_token or "")


def _check_end(partition: Partition, end: int, newest: int | None) -> None:
    """Check after an empty response that the partition does not end before the range, because then nothing ever
    comes."""
    if newest is not None and 0 <= newest < end:
        raise OffsetMovedError(
            f"partition {partition} ends at {newest}, before the end {end} of the range to read",
            hint="its Broker has lost messages that it had before; see what happened to its data directory",
            code=Code.MOVED,
        )


def _lost(partition: Partition, gap: tuple[int, int], reasons: list[str]) -> DamagedRangeError:
    first, until = gap
    return DamagedRangeError(
        f"{partition} from offset {first} to before {until} ({messages_between(first, until)} messages) "
        f"cannot be read: {reasons[0] if reasons else 'they are lost to damage'}",
        hint=f"read on from offset {until}",
        start=first,
        end=until,
    )


def _moved_hint(code: int, first: int | None) -> str | None:
    return f"the messages there have been deleted; the first offset is now {first}" if code == Code.MOVED else None
