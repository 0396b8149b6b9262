"""A producer under load and a consumer that confirms; tells when each goes on after its Broker was stopped."""

import asyncio
import contextlib
import json
import time

import pytubemq
from bench.clients.window import Result, Spec, report, spec
from pytubemq.errors import BufferFullError, TubeError
from pytubemq.server.run import run_loop


class Progress:
    """When the first acknowledgement and the first confirm came after `watch`."""

    def __init__(self) -> None:
        self.acked: float | None = None
        self.confirmed: float | None = None
        self.both = asyncio.Event()
        self.watched_s = 0.0

    def watch(self) -> None:
        self.watched_s = time.monotonic()
        self.acked = self.confirmed = None
        self.both.clear()

    def saw_ack(self, future: asyncio.Future[pytubemq.Receipt]) -> None:
        if self.acked is None and not future.cancelled() and future.exception() is None:
            self.acked = time.monotonic()
            self._look()

    def saw_confirm(self) -> None:
        if self.confirmed is None:
            self.confirmed = time.monotonic()
            self._look()

    def _look(self) -> None:
        if self.acked is not None and self.confirmed is not None:
            self.both.set()


async def produce(tube: pytubemq.Tube, given: Spec, progress: Progress) -> None:
    body = bytes(given["size_bytes"])
    async with tube.producer(given["topic"], max_buffer_messages=given["window"]) as producer:
        while True:
            try:
                producer.submit(body).add_done_callback(progress.saw_ack)
            except BufferFullError:
                await producer.room(size_bytes=len(body))
                continue
            await asyncio.sleep(0.001)


async def consume(tube: pytubemq.Tube, given: Spec, progress: Progress) -> None:
    async with tube.consumer("resume", given["topic"], start=pytubemq.Start.EARLIEST) as consumer:
        async for batch in consumer.batches():
            with contextlib.suppress(TubeError):  # one that the Broker did not answer in time comes again
                await batch.confirm()
                progress.saw_confirm()


async def main(given: Spec) -> Result:
    """For each line of input: wait for both from now on, and tell when they came."""
    progress = Progress()
    async with pytubemq.connect(given["master"]) as tube:
        tasks = [asyncio.ensure_future(one(tube, given, progress)) for one in (produce, consume)]
        try:
            await progress.both.wait()
            print("ready", flush=True)
            while await asyncio.to_thread(input) == "watch":
                progress.watch()
                print("watching", flush=True)
                async with asyncio.timeout(given["timeout_s"]):
                    await progress.both.wait()
                print(json.dumps({"acked_s": progress.acked, "confirmed_s": progress.confirmed}), flush=True)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return {}


if __name__ == "__main__":
    report(run_loop(main(spec())))
