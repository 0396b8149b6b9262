"""Ranges in columns from a Broker whose responses cannot be read or make no sense."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from pytubemq.client.reader.range_reads import RangeConnection, RangeWay
from pytubemq.errors import CorruptError
from pytubemq.model.ids import Address, Partition
from pytubemq.wire.protocol.extensions import OURS
from pytubemq.wire.protocol.messages.broker import AuthorizedInfo
from pytubemq.wire.protocol.messages.extension import ReadRangeRequestC2B, ReadRangeResponseB2C
from pytubemq.wire.serialization.message_bytes import decode, encode

if TYPE_CHECKING:
    from pytubemq.net.client.blocking import BlockingConnection

P0 = Partition(1, "demo", 0)


class Answering:
    """A connection whose peer gives the same response to each request."""

    capabilities = OURS

    def __init__(self, response: bytes) -> None:
        self.requests: list[ReadRangeRequestC2B] = []
        self._response = response

    def send(self, _method: int, _service: int, body: bytes, **_: Any) -> None:
        self.requests.append(decode(ReadRangeRequestC2B, body))

    def receive(self, **_: Any) -> memoryview:
        return memoryview(self._response)


def read(connection: Answering) -> None:
    way = RangeWay(Address("127.0.0.1", 1), "r_127.0.0.1-1-1-1-1", AuthorizedInfo(visit_authorized_token=0), 1.0)
    made = RangeConnection(way, cast("BlockingConnection", connection))
    list(made.read(P0, 28, 56, max_messages=10, max_bytes=1000))


def test_what_stays_unreadable_is_checked_once_and_then_an_error() -> None:
    connection = Answering(b"\x08\x01\x10\xc8\x01\x22\x7f")
    with pytest.raises(CorruptError, match="1:demo:0 from offset 28 on cannot be read: the Broker's response"):
        read(connection)
    assert [request.check for request in connection.requests] == [None, True]


@pytest.mark.parametrize("newest", [56, None])
def test_a_broker_that_contradicts_itself_ends_the_range(newest: int | None) -> None:
    connection = Answering(
        encode(ReadRangeResponseB2C(success=False, err_code=404, err_msg="nothing", max_offset=newest))
    )
    with pytest.raises(CorruptError, match="no message at offset 28, but the end of the partition at 56"):
        read(connection)
    assert len(connection.requests) == 3
