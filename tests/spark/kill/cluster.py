"""A cluster whose Master and Broker are processes that can be killed, and are reached through a proxy each."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import httpx

import pytubemq.sync
from pytubemq.model.offset import messages_between
from pytubemq.net.iothread import IoThread
from pytubemq.server.processes import ServerProcess
from pytubemq.server.sources import load_settings
from tests.support.ports import free_port
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

START_TIMEOUT_S = 60.0


def message(number: int, *, size_bytes: int = 0) -> bytes:
    """`{"id": number, ...}`, longer by `size_bytes`."""
    return json.dumps({"id": number, "pad": "x" * size_bytes}).encode()


class KillableCluster:
    """A Master, a Broker, and a proxy in front of each; the Broker knows the Master itself."""

    def __init__(self, home: Path, **settings: object) -> None:
        """`settings` by name in the section `broker`."""
        self._io = IoThread(name="cluster")
        self._home = home
        master = f"127.0.0.1:{free_port()}"
        self._front = Proxy(master, port=free_port())
        self._http = f"127.0.0.1:{free_port()}"
        broker = f"127.0.0.1:{free_port()}"
        proxied = free_port()
        common: dict[str, object] = {"data": str(home), "log.level": "warning", "master.listen": master}
        common |= {"http.listen": self._http, "broker.http_listen": f"127.0.0.1:{free_port()}", "broker.listen": broker}
        common |= {"broker.advertised": f"127.0.0.1:{proxied}", "broker.masters": [master], "broker.id": 1}
        common |= {f"broker.{name}": value for name, value in settings.items()}
        self.settings = load_settings(None, environ={}, flags=common)
        self._master = ServerProcess("master", self.settings)
        self._broker = ServerProcess("broker", self.settings)
        self.proxy = Proxy(broker, port=proxied)

    def __enter__(self) -> KillableCluster:
        self._io.run(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._io.run(self._close())
        self._io.close()

    async def _start(self) -> None:
        await self._master.start()
        await self._front.__aenter__()
        await self.proxy.__aenter__()
        await self._broker.start()

    async def _close(self) -> None:
        await asyncio.gather(self._broker.close(), self._master.close(), return_exceptions=True)
        await self.proxy.__aexit__(None, None, None)
        await self._front.__aexit__(None, None, None)

    @property
    def master(self) -> str:
        """The address that clients know."""
        return self._front.address

    @property
    def turned_away(self) -> int:
        """Connections that clients tried to make to the Master while it was down."""
        return self._front.refused

    def kill_broker(self) -> None:
        """SIGKILL."""
        self._io.run(self._broker.kill())

    def restart_broker(self) -> None:
        """On its data and its address."""
        self._io.run(self._broker.restart())

    def kill_master(self) -> None:
        """SIGKILL."""
        self._io.run(self._master.kill())

    def restart_master(self) -> None:
        """On its data and its address."""
        self._io.run(self._master.restart())

    def cut_after(self, size_bytes: int) -> None:
        """Cut once so many more bytes have passed: whoever reads then stands still in the middle."""
        self._io.call(lambda: self.proxy.cut_after(size_bytes))

    @property
    def is_cut(self) -> bool:
        """Whether nothing passes."""
        return self.proxy.is_cut

    def cut(self) -> None:
        """Nothing passes between clients and the Broker, and nobody is told."""
        self._io.call(self.proxy.cut)

    def mend(self) -> None:
        """It passes again."""
        self._io.call(self.proxy.mend)

    def hold_answers_after(self, size_bytes: int) -> None:
        """Once the Broker was sent so many more bytes its answers are held back: it gets rows and nobody knows."""
        self._io.call(lambda: self.proxy.hold_answers_after(size_bytes))

    @property
    def holds_answers(self) -> bool:
        """Whether the Broker has answered something that nobody gets."""
        return self.proxy.holds_answers

    def break_off(self) -> None:
        """Close all connections to the Broker; what was held back is lost."""
        self._io.run(self.proxy.break_off())

    def figure(self, name: str) -> int:
        """What the Broker's metrics say, past the proxy; `name` as it stands there, with its labels."""
        text = httpx.get(f"http://{self.settings.broker.http_listen}/metrics", timeout=START_TIMEOUT_S).text
        return next(int(float(line.split()[-1])) for line in text.splitlines() if line.startswith(f"{name} "))

    def create_topic(self, name: str, *, partitions: int = 4, retention: str | None = None) -> None:
        """It can be used when this returns."""
        more = {} if retention is None else {"retention": retention}
        answer = httpx.post(
            f"http://{self._http}/api/v1/topics",
            json={"name": name, "partitions": partitions, **more},
            timeout=START_TIMEOUT_S,
        )
        answer.raise_for_status()

    def fill(self, topic: str, first: int, count: int, *, size_bytes: int = 0) -> None:
        """Messages `{"id": n, ...}` with `n` from `first` on."""
        with pytubemq.sync.connect(self.master) as tube, tube.producer(topic) as producer:
            for start in range(first, first + count, 1000):
                stop = min(start + 1000, first + count)
                producer.send_many([message(n, size_bytes=size_bytes) for n in range(start, stop)])

    def spoil(self, topic: str, count: int) -> None:
        """Messages that are no JSON."""
        with pytubemq.sync.connect(self.master) as tube, tube.producer(topic) as producer:
            producer.send_many([b"{no json %d" % n for n in range(count)])

    def bodies(self, topic: str) -> list[int]:
        """The body of every message, as numbers."""
        found = []
        with pytubemq.sync.connect(self.master) as tube:
            for partition in tube.partitions(topic):
                with tube.reader(partition, start="earliest", end="latest") as reader:
                    found += [int(message.body) for batch in reader.batches() for message in batch]
        return found

    def held(self, topic: str) -> int:
        """How many messages the topic holds."""
        with pytubemq.sync.connect(self.master) as tube:
            ends = tube.offsets(tube.partitions(topic))
        return sum(messages_between(low, high) for low, high in ends.values())
