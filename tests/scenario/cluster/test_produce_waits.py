"""`pytubemq produce` while the Broker takes nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import Code, ExitCode
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.broker import SendMessageResponseB2P
from pytubemq.wire.rpc.methods import Method

if TYPE_CHECKING:
    from .conftest import CommandLine

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]

FULL = SendMessageResponseB2P(
    success=False, err_code=Code.SERVER_RECEIVE_OVERFLOW, err_msg="the disk of this Broker is full"
)


async def test_why_nothing_is_taken_is_said_while_it_is_tried_on(tube: CommandLine) -> None:
    async with MockBroker(topics={"t": 1}, capabilities=Capability(0)) as broker:
        broker.respond_fn(Method.SEND_MESSAGE_P2B, lambda _call, _request: FULL)
        process = tube.start("produce", "t", "hello", "--master", broker.masters)
        assert process.stderr is not None
        said = await asyncio.to_thread(process.stderr.readline)
        assert said == b"waiting: 1 message under way, none accepted for 3 s: the disk of this Broker is full\n"
        broker.respond_fn(Method.SEND_MESSAGE_P2B, None)
        _, rest = await asyncio.to_thread(process.communicate, timeout=60)
        assert (process.returncode, rest) == (ExitCode.DONE, b"sent 1 to t\n")
        assert [message.payload for message in broker.partitions["t", 0].messages] == [b"hello"]
