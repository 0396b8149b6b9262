"""The four pairs of Master and Broker, each a column of the matrix.

The Java Master serves two columns, each with topics of its own on a Broker of its own. Everything starts at the same
time: a Java Broker at a Java Master needs 41 s until it takes messages, whatever one does.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pytubemq.server.processes import ServerProcess
from pytubemq.server.sections.broker import BrokerSection
from pytubemq.server.sections.http import HttpSection
from pytubemq.server.sections.master import MasterSection
from pytubemq.server.settings import Settings
from tests.support.ports import free_port
from tests.support.waiting import until_answer

from .processes import TOKEN, JavaBroker, JavaMaster
from .webapi import START_TIMEOUT_S, WebApi, until_answers

if TYPE_CHECKING:
    from pathlib import Path

    from .fetch import Java

COLUMNS = ("pytubemq + pytubemq", "Java + Java", "Java Master + pytubemq Broker", "pytubemq Master + Java Broker")
PP, JJ, JP, PJ = COLUMNS
PREFIXES = {PP: "pp", JJ: "jj", JP: "jp", PJ: "pj"}
PARTITIONS = 4
TOPICS = ("java", "python", "mixed", "standby", "moving", "growing", "broker", "master", "visits")
"""Filled by Java producers, filled by ours, read by a group of both kinds; the others each for one disturbance."""
WRITABLE_TIMEOUT_S = 300.0
RESTART_TIMEOUT_S = 600.0
"""For the other column that uses the Java Master to come as far."""


@dataclass
class Column:
    """A Master and the Broker that has this column's topics."""

    name: str
    masters: str
    web: str
    java_master: bool
    java_broker: bool
    broker_id: int
    broker_web: str
    broker: JavaBroker | ServerProcess
    master: JavaMaster | ServerProcess

    @property
    def prefix(self) -> str:
        return PREFIXES[self.name]

    @property
    def webapi(self) -> WebApi:
        return WebApi(self.web)

    def topic(self, name: str) -> str:
        """A topic of this column's."""
        return f"{self.prefix}_{name}"

    def group(self, name: str) -> str:
        """A group of this column's."""
        return f"{self.prefix}_{name}"


class System:
    """All servers of a run."""

    def __init__(self, java: Java, home: Path) -> None:
        self.java = java
        self.home = home
        self.columns: dict[str, Column] = {}
        self.java_master: JavaMaster | None = None
        self._standby: asyncio.Task[str] | None = None
        self._restarted: asyncio.Task[None] | None = None
        self._all_there = asyncio.Event()
        self.sharing = 0
        """Columns that will have the Java Master restarted; it is when all of them are there."""
        self._java: list[JavaMaster | JavaBroker] = []
        self._ours: list[ServerProcess] = []
        self._ready: dict[str, asyncio.Task[None]] = {}

    async def start(self, names: set[str]) -> None:
        """Start what these columns need; `ready` waits for one of them."""
        async with asyncio.TaskGroup() as starting:
            if names & {JJ, JP}:
                starting.create_task(self._start_java_master(names))
            for name in names & {PP, PJ}:
                starting.create_task(self._start_our_master(name))

    async def ready(self, name: str) -> Column:
        """The column, its topics writable."""
        if name not in self._ready:
            self._ready[name] = asyncio.create_task(self._until_writable(self.columns[name]))
        await asyncio.shield(self._ready[name])
        return self.columns[name]

    async def close(self) -> None:
        """End everything, Brokers first."""
        for task in (*self._ready.values(), self._standby, self._restarted):
            if task is not None:
                task.cancel()
        await asyncio.gather(*(one.kill() for one in self._java), *(one.close() for one in self._ours))

    # --- the Java Master and its two Brokers ----------------------------------------------------------------

    async def _start_java_master(self, names: set[str]) -> None:
        master = self.java_master = JavaMaster(self.java, self._directory("java-master"), visit_tokens=True)
        self._java.append(master)
        await master.start()
        await until_answers(master)
        api = WebApi(master.web)
        if JJ in names:
            broker = self._java_broker("jj", broker_id=1, host="127.0.0.1", port=free_port(), masters=master.address)
            await self._add_broker(api, JJ, 1, "127.0.0.1", broker.port)
            self.columns[JJ] = Column(JJ, master.address, master.web, True, True, 1, broker.web, broker, master)
            await broker.start()
        if JP in names:
            port = free_port()
            await self._add_broker(api, JP, 2, "127.0.0.2", port)
            ours = self._our_broker("jp", broker_id=2, listen=f"127.0.0.2:{port}", masters=master.address)
            web = f"http://{ours.settings.broker.http_listen}"
            self.columns[JP] = Column(JP, master.address, master.web, True, False, 2, web, ours, master)
            await ours.start()

    async def standby_address(self) -> str:
        """A Java Master that is the second of a group of its own, and says so to every client."""
        if self._standby is None:
            self._standby = asyncio.create_task(self._start_standby())
        return await asyncio.shield(self._standby)

    async def _start_standby(self) -> str:
        first = JavaMaster(self.java, self._directory("first"))
        second = JavaMaster(self.java, self._directory("second"), name="m2", helper=first.rep_address)
        for master in (first, second):
            self._java.append(master)
            await master.start()
            await until_answers(first)
        await until_answer(
            lambda: WebApi(first.web).query("admin_query_master_group_info"),
            lambda members: len(members) >= 2,
            timeout_s=START_TIMEOUT_S,
            every_s=0.2,
        )
        return second.address

    async def _add_broker(self, api: WebApi, column: str, broker_id: int, host: str, port: int) -> None:
        await api.modify(
            "admin_add_broker_configure", brokerId=broker_id, brokerIp=host, brokerPort=port, manageStatus="online"
        )
        await api.modify(
            "admin_add_new_topic_record",
            brokerId=broker_id,
            topicName=",".join(f"{PREFIXES[column]}_{name}" for name in TOPICS),
            numPartitions=PARTITIONS,
        )

    # --- our Masters ------------------------------------------------------------------------------------------

    async def _start_our_master(self, name: str) -> None:
        prefix = PREFIXES[name]
        master = ServerProcess("master", Settings(
            data=str(self._directory(f"{prefix}-master")),
            master=MasterSection(listen=f"127.0.0.1:{free_port()}"),
            http=HttpSection(listen=f"127.0.0.1:{free_port()}", token=TOKEN),
        ))  # fmt: skip
        self._ours.append(master)
        where = await master.start()
        assert where.master is not None
        assert where.http is not None
        api = WebApi(where.http)
        port = free_port()
        broker: JavaBroker | ServerProcess
        if name == PJ:
            broker = self._java_broker(prefix, broker_id=1, host="127.0.0.1", port=port, masters=where.master)
            web = broker.web
        else:
            broker = self._our_broker(prefix, broker_id=1, listen=f"127.0.0.1:{port}", masters=where.master)
            web = f"http://{broker.settings.broker.http_listen}"
        await self._add_broker(api, name, 1, "127.0.0.1", port)
        self.columns[name] = Column(name, where.master, where.http, False, name == PJ, 1, web, broker, master)
        await broker.start()

    # --- all of them ------------------------------------------------------------------------------------------

    async def _until_writable(self, column: Column) -> None:
        for topic in TOPICS:
            asked = partial(self.is_writable, column, column.topic(topic))
            await until_answer(asked, timeout_s=WRITABLE_TIMEOUT_S, every_s=0.3)

    async def is_writable(self, column: Column, topic: str) -> bool:
        """Whether the Master gives the topic to producers."""
        rows = await column.webapi.query("admin_query_topic_info", topicName=topic)
        return bool(rows) and bool(rows[0].get("isSrvAcceptPublish"))

    # --- what happens to them ---------------------------------------------------------------------------------

    async def restart_broker(self, column: Column) -> None:
        """End the column's Broker and start it again. A Java one is asked to end: killed, it loses messages."""
        if isinstance(column.broker, JavaBroker):
            await column.broker.stop()
        else:
            await column.broker.kill()
        await column.broker.start()

    async def restart_master(self, column: Column) -> None:
        """End the column's Master without any goodbye and start it again. The Java one is restarted once for all."""
        if isinstance(column.master, ServerProcess):
            await column.master.kill()
            await column.master.start()
            return
        self.sharing -= 1
        if self.sharing == 0:
            self._all_there.set()
        if self._restarted is None:
            self._restarted = asyncio.create_task(self._restart_java_master(column.master))
        await asyncio.shield(self._restarted)

    async def _restart_java_master(self, master: JavaMaster) -> None:
        async with asyncio.timeout(RESTART_TIMEOUT_S):
            await self._all_there.wait()
        await master.kill()
        await master.start()
        await until_answers(master)

    def _java_broker(self, prefix: str, **more: Any) -> JavaBroker:
        broker = JavaBroker(self.java, self._directory(f"{prefix}-broker"), **more)
        self._java.append(broker)
        return broker

    def _our_broker(self, prefix: str, *, broker_id: int, listen: str, masters: str) -> ServerProcess:
        broker = ServerProcess("broker", Settings(
            data=str(self._directory(f"{prefix}-broker")),
            broker=BrokerSection(
                id=broker_id, listen=listen, http_listen=f"127.0.0.1:{free_port()}", masters=[masters]
            ),
        ))  # fmt: skip
        self._ours.append(broker)
        return broker

    def _directory(self, name: str) -> Path:
        found = self.home / name
        found.mkdir(parents=True)
        return found
