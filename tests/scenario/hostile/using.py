"""Clients of every kind at work, each again and again, whatever it meets.

The invariant: an error of the package's own tree ends a round and nothing else; anything else is a fault and is logged
with its traceback, and so is a call that takes much longer than its options allow.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import pytubemq
from pytubemq.errors import TubeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pytubemq import Receipt
    from pytubemq.client.tube import Tube
    from pytubemq.master.service import MasterService
    from tests.scenario.hostile.watch import Watch

TOPIC: Final = "demo"
REQUEST_TIMEOUT_S: Final = 0.3
ROUND_S: Final = 30.0
"""A round is done within a second or two; one that takes so long hangs."""

logger = logging.getLogger("tests.hostile")


async def use_clients(masters: str) -> None:
    """Run every kind of client against these Masters until cancelled."""
    await asyncio.gather(*(_again(use, masters) for use in KINDS))


async def use_soundly(masters: str, watch: Watch) -> None:
    """Send and consume at a cluster that is sound, beside the others: every message comes back."""
    sent = received = 0
    async with (
        pytubemq.connect(masters) as tube,
        tube.producer(TOPIC) as producer,
        tube.consumer("sound", TOPIC, start=pytubemq.Start.EARLIEST) as consumer,
    ):
        while True:
            receipts = await asyncio.gather(*(producer.send(b"%d" % number) for number in range(sent, sent + 10)))
            sent += len(receipts)
            while received < sent:
                batch = await consumer.next_batch(timeout_s=ROUND_S)
                if batch is None:
                    watch.problem(f"a sound cluster beside: {received} of {sent} messages came")
                    return
                received += len(batch.messages)
                await batch.confirm()
            watch.beside += 10
            await asyncio.sleep(0.02)  # the load's pace


async def use_master(master: MasterService) -> None:
    """Ask a Master all that it has to ask its Brokers for, again and again."""
    views: tuple[Callable[[], Awaitable[object]], ...] = (
        master.topics,
        lambda: master.topic(TOPIC),
        master.groups,
        lambda: master.group("hostile"),
        lambda: master.group_resets("hostile"),
        lambda: master.reset_group("hostile", TOPIC, to="earliest", user="ann", dry_run=True),
        master.health,
        master.brokers,
    )
    while True:
        for view in views:
            try:
                async with asyncio.timeout(ROUND_S):
                    await view()
            except TubeError:
                pass
            except Exception:
                logger.exception("a view of the Master ended with what is no error of the package")
            await asyncio.sleep(0)


async def _again(use: Callable[[Tube], Awaitable[None]], masters: str) -> None:
    while True:
        try:
            async with asyncio.timeout(ROUND_S):
                async with pytubemq.connect(masters, request_timeout_s=REQUEST_TIMEOUT_S) as tube:
                    await use(tube)
        except TubeError:
            await asyncio.sleep(0.001)  # a refusal comes at once
        except TimeoutError:
            logger.exception("%s did not end within %g s", use.__name__, ROUND_S)
        except Exception:
            logger.exception("%s ended with what is no error of the package", use.__name__)
            await asyncio.sleep(0.1)  # the log would fill up


async def _produce(tube: Tube) -> None:
    async with tube.producer(TOPIC, delivery_timeout_s=1.0, close_timeout_s=0.5) as producer:
        futures: list[asyncio.Future[Receipt]] = []
        for number in range(200):
            futures.append(producer.submit(b"%d" % number, key=str(number % 5)))
            futures[-1].add_done_callback(_check_error)
        await asyncio.gather(*futures, return_exceptions=True)


def _check_error(future: asyncio.Future[Receipt]) -> None:
    error = None if future.cancelled() else future.exception()
    if error is not None and not isinstance(error, TubeError):
        logger.error("a message failed with what is no error of the package", exc_info=error)


async def _produce_one_by_one(tube: Tube) -> None:
    async with tube.producer(
        TOPIC, batching=False, idempotent=False, delivery_timeout_s=1.0, close_timeout_s=0.5
    ) as producer:
        for number in range(20):
            await producer.send(b"%d" % number, msg_type="a")


async def _consume(tube: Tube) -> None:
    async with tube.consumer("hostile", TOPIC, start=pytubemq.Start.EARLIEST, close_timeout_s=0.5) as consumer:
        for _ in range(5):
            batch = await consumer.next_batch(timeout_s=0.3)
            if batch is not None:
                for message in batch:
                    assert isinstance(message.body, bytes)
                await batch.confirm()


async def _push(tube: Tube) -> None:
    seen: list[int] = []
    async with tube.push_consumer(
        "pushed",
        TOPIC,
        handler=lambda batch: seen.append(len(batch)),
        start=pytubemq.Start.EARLIEST,
        close_timeout_s=0.5,
    ) as push:
        await push.wait(timeout_s=0.5)


async def _balance(tube: Tube) -> None:
    async with tube.balance_consumer(
        "balanced", TOPIC, node_id=0, source_count=1, start=pytubemq.Start.EARLIEST, close_timeout_s=0.5,
        meta_check_s=0.2, node_wait_s=0.5,
    ) as consumer:  # fmt: skip
        for _ in range(3):
            batch = await consumer.next_batch(timeout_s=0.3)
            if batch is not None:
                await batch.confirm()


async def _read(tube: Tube) -> None:
    async with tube.reader(f"1:{TOPIC}:0", end=pytubemq.Start.LATEST, retry_for_s=0.5) as reader:
        async for batch in reader.batches():
            for message in batch:
                assert isinstance(message.body, bytes)


async def _ask(tube: Tube) -> None:
    partitions = await tube.partitions(TOPIC)
    await tube.look(partitions[:10], group="hostile")
    await tube.topics()
    await tube.reset_group("hostile", TOPIC, "earliest")


KINDS: Final = (_produce, _produce_one_by_one, _consume, _push, _balance, _read, _ask)
