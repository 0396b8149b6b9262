"""A Java Broker at our Master, a producer that goes on and writes down where each message went, and Spark's workers.

What a Java Broker answers to a send has the message's place in its index. So the truth about a range does not come from
anything that is tested here.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytubemq.sync
from pytubemq.admin.app import create_app
from pytubemq.admin.serving.http import HttpServer
from pytubemq.admin.webapi.authorization import Access
from pytubemq.admin.webapi.routes import master_routes
from pytubemq.errors import TubeError
from pytubemq.master.service import MasterService, MasterSettings
from pytubemq.model.ids import Address, Partition
from pytubemq.net.iothread import IoThread
from tests.support.proc import python_workers
from tests.support.waiting import until_seen

from .fetch import fetch
from .processes import TOKEN, JavaBroker
from .webapi import WebApi

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

WAIT_S = 120.0
SINGLE, SHARED, STREAMED, KILLED, WRITTEN = TOPICS = "single", "shared", "streamed", "killed", "written"
PARTITIONS = 4


def until(condition: Callable[[], object], *, timeout_s: float = WAIT_S) -> None:
    """Wait for what tells nobody when it happens; the bound is generous, because it is a bug if it is reached."""
    until_seen(condition, timeout_s=timeout_s, every_s=0.01)


class JavaCluster:
    """Our Master and a Java Broker, for threads."""

    def __init__(self, home: Path) -> None:
        self._io = IoThread(name="java-cluster")
        self._service = MasterService(
            MasterSettings(listen=Address("127.0.0.1", 0), data_dir=home / "master", foreign_topic_timeout_s=WAIT_S)
        )
        self._http: HttpServer | None = None
        self._home = home
        self.broker: JavaBroker | None = None
        self.master = ""

    def __enter__(self) -> JavaCluster:
        self._io.run(self._start())
        until(lambda: all(self._partitions(topic) for topic in TOPICS))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._io.run(self._close())
        self._io.close()

    def kill_broker(self) -> None:
        """SIGKILL: what it has only in memory is lost."""
        assert self.broker is not None
        self._io.run(self.broker.kill())

    def stop_broker(self) -> None:
        """Ask it to end: it flushes what it has in memory."""
        assert self.broker is not None
        self._io.run(self.broker.stop())

    def start_broker(self) -> None:
        """Start it again."""
        assert self.broker is not None
        self._io.run(self.broker.start())

    async def _start(self) -> None:
        await self._service.start()
        self.master = str(self._service.address)
        self._http = HttpServer(
            create_app(self._service, pages=master_routes(self._service, Access(TOKEN))), Address("127.0.0.1", 0)
        )
        api = WebApi(f"http://{await self._http.start()}")
        broker = self.broker = JavaBroker(
            fetch(), self._home / "broker", broker_id=1, host="127.0.0.1", masters=self.master
        )
        where: dict[str, Any] = {"brokerId": 1}
        await api.modify(
            "admin_add_broker_configure", **where, brokerIp="127.0.0.1", brokerPort=broker.port, manageStatus="online"
        )
        add = "admin_add_new_topic_record"
        await api.modify(add, **where, topicName=SINGLE, numPartitions=1)
        await api.modify(add, **where, topicName=f"{SHARED},{STREAMED},{WRITTEN}", numPartitions=PARTITIONS)
        # It writes every thousand messages: by the clock alone, it would after half a minute.
        small = {"memCacheMsgCntInK": 1, "unflushThreshold": 1000}
        await api.modify(add, **where, **small, topicName=KILLED, numPartitions=PARTITIONS)
        await broker.start()

    async def _close(self) -> None:
        if self.broker is not None:
            await self.broker.kill()
        if self._http is not None:
            await self._http.close()
        await self._service.close()

    def _partitions(self, topic: str) -> int:
        async def count() -> int:
            return sum(place.partitions * place.stores for place in self._service.broker_room.topics.publishing(topic))

        return self._io.run(count())


class Feeder:
    """Sends numbered messages to a topic until its block ends; `places` has where each one went."""

    def __init__(self, master: str, topic: str, *, per_s: int = 4000) -> None:
        self.topic = topic
        self.places: dict[Partition, dict[int, tuple[int, int]]] = defaultdict(dict)
        """Partition -> offset -> number and message id, of what the Broker has acknowledged."""
        self._master = master
        self._pause_s = 100 / per_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._send, name=f"feeder-{topic}")
        self.sent = 0

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()

    def _send(self) -> None:
        number = 0
        with pytubemq.sync.connect(self._master) as tube, tube.producer(self.topic) as producer:
            while not self._end.wait(self._pause_s):
                sends = [(n, producer.submit(b"%d" % n, attrs={"n": str(n)})) for n in range(number, number + 100)]
                number += 100
                for n, future in sends:
                    with contextlib.suppress(TubeError):  # a Broker that was killed: nobody knows, the count tells
                        receipt = future.result()
                        self.places[receipt.partition][receipt.offset or 0] = (n, receipt.message_id or 0)
                        self.sent += 1

    def between(self, partition: Partition, start: int, end: int) -> list[tuple[int, int]]:
        """Number and message id of a partition's messages in [start, end), in order."""
        places = self.places[partition]
        return [places[offset] for offset in sorted(places) if start <= offset < end]


def kill_worker(killed: set[int]) -> None:
    """SIGKILL to the youngest worker that is not among the killed yet, if there is one; then it is."""
    alive = set(python_workers(os.getsid(0))) - killed
    if alive:
        pid = max(alive)
        killed.add(pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
