"""Clients in a forked child: their blocks end there without a word, and the parent's connections stay whole."""

from __future__ import annotations

import asyncio
import os

import pytest

from pytubemq import Start, connect
from pytubemq.testing.mock_broker import MockBroker

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.process,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


async def test_leaving_the_blocks_in_a_child_does_nothing() -> None:
    child = -1
    async with MockBroker(topics={"demo": 1}) as mock:
        try:
            async with (
                connect(mock.masters) as tube,
                tube.producer("demo") as producer,
                tube.consumer("g", "demo", start=Start.EARLIEST) as consumer,
                tube.push_consumer("h", "demo", handler=print),
                tube.reader("1:demo:0"),
            ):
                child = os.fork()
                if child == 0:
                    raise KeyError("the child's own")
                _, status = await asyncio.to_thread(os.waitpid, child, 0)
                assert os.waitstatus_to_exitcode(status) == 7
                await producer.send(b"the parent goes on")
                batch = await consumer.next_batch(timeout_s=30)
                assert batch is not None
                await batch.confirm()
        except KeyError:
            os._exit(7 if child == 0 else 1)
        except BaseException:
            if child == 0:
                os._exit(2)
            raise
