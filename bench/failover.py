"""The time until the next Master answers, and what clients notice of that.

    python -m bench.failover [--times 10] [--lease 1.5] [--how kill|stop]

Starts PostgreSQL (`scripts/setup --postgres`), two Masters on one database and a Broker, on loopback, with a producer
and a consumer that never pause. The Master that leads is killed, or stopped as by SIGSTOP, and when the other one
answers it comes back and stands by; and so on. Prints one JSON object: `answers_s` (from the signal until the next
Master grants a request), `failed_sends`, `lost` and `repeated` messages, and `moves` (partitions that the consumer was
given or had to give up after it began).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import httpx

import pytubemq
from pytubemq.core.database.database_limits import LEASE_S
from pytubemq.errors import StandbyError, TubeError
from pytubemq.model.ids import Address
from pytubemq.net.client.connection import RpcConnection
from pytubemq.server.processes import ServerProcess
from pytubemq.server.sources import load_settings
from pytubemq.wire.protocol.messages.master import CloseRequestP2M, CloseResponseM2P
from pytubemq.wire.rpc.methods import Method, Service
from tests.support.ports import free_port
from tests.support.postgres import Postgres

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

WITHIN_S = 120.0
PARTITIONS = 4


class Masters:
    """Two Masters on one database, and a Broker that knows both."""

    def __init__(self, home: Path, postgres: Postgres, lease_s: float) -> None:
        self._home, self._lease_s, self._password = home, lease_s, postgres.password
        self._url = postgres.database_url(postgres.new_database())
        self.addresses, self._pages = ([f"127.0.0.1:{free_port()}" for _ in range(2)] for _ in range(2))
        self.processes = [self._master(number) for number in range(2)]
        self._starts: dict[int, asyncio.Future[object]] = {}
        data = home / "broker"
        data.mkdir()
        flags: dict[str, object] = {"data": str(data), "broker.listen": f"127.0.0.1:{free_port()}"}
        flags |= {"broker.http_listen": "", "broker.masters": self.addresses}
        self.broker = ServerProcess("broker", load_settings(None, environ={}, flags=flags))

    def _master(self, number: int) -> ServerProcess:
        data = self._home / f"master-{number}"
        data.mkdir(exist_ok=True)
        secret = data / "store.password"
        secret.touch(mode=0o600)
        secret.write_text(f"{self._password}\n", "utf-8")
        flags: dict[str, object] = {"data": str(data), "master.lease_s": self._lease_s, "master.store": self._url}
        flags |= {"master.store_password_file": str(secret), "log.level": "info"}
        flags |= {"master.listen": self.addresses[number], "http.listen": self._pages[number]}
        return ServerProcess("master", load_settings(None, environ={}, flags=flags))

    async def start(self, topic: str) -> None:
        """Start all, the first Master as the leader, and create a topic."""
        await self.processes[0].start(timeout_s=WITHIN_S)
        await self.stand_by(1)
        await self.broker.start(timeout_s=WITHIN_S)
        async with httpx.AsyncClient(timeout=WITHIN_S, base_url=f"http://{self._pages[0]}") as client:
            await _until(lambda: _created(client, topic), every_s=0.1)

    async def stand_by(self, number: int) -> None:
        """Start a Master while the other one leads, and wait until it answers as a standby."""
        process = self.processes[number]
        self._starts[number] = asyncio.ensure_future(process.start(timeout_s=3600.0))
        await _until(lambda: self.answers(number, standby=True), every_s=0.05)

    async def answers(self, number: int, *, standby: bool = False) -> bool:
        """True if a Master grants a request; or, with `standby`, says that it stands by."""
        connection: RpcConnection | None = None
        try:
            connection = await RpcConnection.connect(Address.parse(self.addresses[number]), timeout_s=1.0)
            await connection.request(
                CloseRequestP2M(client_id="bench"),
                CloseResponseM2P,
                Method.PRODUCER_CLOSE_P2M,
                Service.MASTER,
                timeout_s=1.0,
            )
        except StandbyError:
            return standby
        except TubeError:
            return False
        finally:
            if connection is not None:
                await connection.close()
        return not standby

    async def fail_over(self, leader: int, how: signal.Signals) -> float:
        """End one leader; return the seconds until the other Master grants a request. The ended one stands by then."""
        process, other = self.processes[leader], 1 - leader
        assert process.pid is not None
        os.kill(process.pid, how)
        began_s = time.monotonic()
        await _until(lambda: self.answers(other), every_s=0.01)
        took_s = time.monotonic() - began_s
        await self._starts.pop(other)
        if how is signal.SIGSTOP:
            os.kill(process.pid, signal.SIGCONT)  # it sees that it leads no more, and ends
        await process.wait()
        await process.close()
        self.processes[leader] = self._master(leader)
        await self.stand_by(leader)
        return took_s

    async def close(self) -> None:
        """End everything."""
        for start in self._starts.values():
            start.cancel()
        await asyncio.gather(*self._starts.values(), return_exceptions=True)
        await asyncio.gather(*(one.close() for one in (*self.processes, self.broker)), return_exceptions=True)


class Clients:
    """A producer and a consumer that never pause, and what they notice."""

    def __init__(self) -> None:
        self.sent = self.failed = self.moves = 0
        self.received: dict[bytes, int] = {}
        self._ends = False

    async def produce(self, producer: pytubemq.Producer) -> None:
        """Send one message after the other until `end`."""
        while not self._ends:
            try:
                await producer.send(b"%d" % self.sent)
                self.sent += 1
            except TubeError:
                self.failed += 1
            await asyncio.sleep(0.005)

    async def consume(self, consumer: pytubemq.Consumer) -> None:
        """Count what comes, until the producer has ended and nothing more comes."""
        while True:
            batch = await consumer.next_batch(timeout_s=5.0)
            if batch is None:
                if self._ends:
                    return
                continue
            for message in batch:
                self.received[message.body] = self.received.get(message.body, 0) + 1
            await batch.confirm()

    async def count_moves(self, tube: pytubemq.Tube) -> None:
        """Count the partitions that are moved from now on."""
        events = tube.events()
        async for event in events:
            if isinstance(event, pytubemq.Rebalanced):
                self.moves += len(event.gained) + len(event.given)

    def end(self) -> None:
        """Send nothing more."""
        self._ends = True


async def _until(is_so: Callable[[], Awaitable[bool]], *, every_s: float) -> None:
    """Ask again and again, for a bounded time."""
    async with asyncio.timeout(WITHIN_S):
        while not await is_so():  # noqa: ASYNC110 - another process has to be asked
            await asyncio.sleep(every_s)


async def _created(client: httpx.AsyncClient, topic: str) -> bool:
    return (await client.post("/api/v1/topics", json={"name": topic, "partitions": PARTITIONS})).status_code < 400


async def _has_all(consumer: pytubemq.Consumer) -> bool:
    return len(consumer.assignment) == PARTITIONS


async def run(times: int, lease_s: float, how: signal.Signals, say: Callable[[str], None]) -> dict[str, object]:
    """Fail over so many times; return the figures."""
    clients, answers = Clients(), list[float]()
    with tempfile.TemporaryDirectory() as text, Postgres(Path(text)) as postgres:
        masters = Masters(Path(text), postgres, lease_s)
        try:
            await masters.start("demo")
            async with (
                pytubemq.connect(",".join(masters.addresses)) as tube,
                tube.producer("demo") as producer,
                tube.consumer("bench", "demo", start=pytubemq.Start.EARLIEST) as consumer,
            ):
                working = [asyncio.ensure_future(clients.produce(producer))]
                working.append(asyncio.ensure_future(clients.consume(consumer)))
                await _until(lambda: _has_all(consumer), every_s=0.05)
                counting = asyncio.ensure_future(clients.count_moves(tube))
                await asyncio.sleep(0.5)
                clients.moves = 0  # those of the beginning
                for number in range(times):
                    answers.append(await masters.fail_over(number % 2, how))
                    say(f"{number + 1} of {times}: {answers[-1]:.2f} s")
                clients.end()
                await asyncio.gather(*working)
                counting.cancel()
                with suppress(asyncio.CancelledError):
                    await counting
        finally:
            await masters.close()
    return {
        "how": how.name,
        "lease_s": lease_s,
        "times": times,
        "answers_s": {"median": round(median(answers), 2), "most": round(max(answers), 2)},
        "sent": clients.sent,
        "failed_sends": clients.failed,
        "lost": clients.sent - len(clients.received),
        "repeated": sum(clients.received.values()) - len(clients.received),
        "moves": clients.moves,
    }


def main() -> None:
    """Run, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.failover", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--lease", type=float, default=LEASE_S, help="master.lease_s, in seconds")
    parser.add_argument("--how", choices=("kill", "stop"), default="kill")
    given = parser.parse_args()
    how = signal.SIGKILL if given.how == "kill" else signal.SIGSTOP
    found = asyncio.run(run(given.times, given.lease, how, lambda text: print(text, flush=True)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
