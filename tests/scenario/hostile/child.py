"""A party under test in a process of its own: a Broker, a Master, or clients. `python -m tests.scenario.hostile.child`.

Takes its orders as lines of JSON and answers each with one; what it must not do is in `watch`.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import json
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pytubemq.admin.app import create_app
from pytubemq.admin.broker_api.app import create_broker_app
from pytubemq.admin.figures import metrics_route
from pytubemq.admin.serving.http import HttpServer
from pytubemq.admin.webapi.authorization import Access
from pytubemq.admin.webapi.routes import master_routes
from pytubemq.broker.service import BrokerService, BrokerSettings
from pytubemq.broker.upkeep import master_session
from pytubemq.core.retry import Backoff
from pytubemq.errors import TubeError
from pytubemq.master.service import MasterService, MasterSettings
from pytubemq.model.ids import Address
from pytubemq.model.topic import TopicConfig
from pytubemq.storage.store_settings import StoreSettings
from tests.scenario.hostile.using import use_clients, use_master, use_soundly
from tests.scenario.hostile.watch import Watch

SOURCE = Path(__file__).parents[3]
LOOPBACK = Address("127.0.0.1", 0)
Close = Callable[[], Awaitable[object]]


async def start_broker(folder: Path, given: dict[str, Any], watch: Watch) -> tuple[dict[str, Any], Close]:
    """A Broker with the Master it is given, or with topics of its own; it tries again much sooner than others."""
    master_session._BACKOFF = Backoff(first_s=0.001, most_s=0.01)  # type: ignore[misc]
    master_session._UNHELD_PAUSE_S = 0.001  # type: ignore[misc]
    sooner = {"DEFAULT_REQUEST_TIMEOUT_S": 0.05, "MAX_HEARTBEAT_WAIT_S": 0.1}
    vars(master_session).update(sooner)
    masters = tuple(Address.parse(one) for one in given.get("masters", ()))
    topics = () if masters else (TopicConfig("demo", 3), TopicConfig("beside", 3))
    broker = BrokerService(
        BrokerSettings(
            broker_id=1, listen=LOOPBACK, data_dir=folder, masters=masters, topics=topics,
            heartbeat_period_s=0.01, retention_check_s=0.2, store=StoreSettings(reserve_bytes=0),
        )
    )  # fmt: skip
    await broker.start()
    return {"address": str(broker.address)}, broker.close


async def start_master(folder: Path, given: dict[str, Any], watch: Watch) -> tuple[dict[str, Any], Close]:
    """A Master with its records in a file, of which everything is asked again and again meanwhile."""
    settings = MasterSettings(listen=LOOPBACK, data_dir=folder, lost_connection_grace_s=0.2, inspect_timeout_s=0.1)
    master = MasterService(settings)
    await master.start()
    asking = asyncio.create_task(use_master(master))

    async def close() -> None:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await master.close()

    return {"address": str(master.address), "master": master}, close


async def start_clients(folder: Path, given: dict[str, Any], watch: Watch) -> tuple[dict[str, Any], Close]:
    """Clients of every kind, each again and again."""
    using = [use_clients(given["masters"]), use_soundly(given["beside"], watch)]
    tasks = [asyncio.create_task(one) for one in using]

    async def close() -> None:
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if not isinstance(ended, asyncio.CancelledError):
                watch.problem(f"clients ended with {ended!r}")

    return {}, close


async def start_spark(folder: Path, given: dict[str, Any], watch: Watch) -> tuple[dict[str, Any], Close]:
    """Planning and tasks of Spark, each again and again."""
    from tests.scenario.hostile.spark_tasks import SparkTasks, be_impatient

    be_impatient()
    tasks = SparkTasks(given["masters"], given["broker"], folder / "losses")
    watch.begin()  # what was imported is behind us
    tasks.start()

    async def close() -> None:
        await asyncio.to_thread(tasks.end, watch)
        watch.beside = tasks.rows

    return {}, close


async def start_http(folder: Path, given: dict[str, Any], watch: Watch) -> tuple[dict[str, Any], Close]:
    """A Master and a Broker with their HTTP, where who does not finish asking is closed soon."""
    master = MasterService(
        MasterSettings(listen=LOOPBACK, data_dir=folder / "master", inspect_timeout_s=0.5, foreign_topic_timeout_s=0.5)
    )
    await master.start()
    broker = BrokerService(
        BrokerSettings(
            broker_id=1, listen=LOOPBACK, data_dir=folder / "broker", masters=(master.address,),
            heartbeat_period_s=0.2, store=StoreSettings(reserve_bytes=0),
        )
    )  # fmt: skip
    await broker.start()
    await _create(master)
    access = Access()
    apps = (
        create_app(master, pages=[*master_routes(master, access), metrics_route(master.facts)]),
        create_broker_app(broker, access),
    )
    servers = [HttpServer(app, LOOPBACK, request_timeout_s=0.5) for app in apps]
    places = [str(await server.start()) for server in servers]

    async def close() -> None:
        for server in servers:
            await server.close()
        await broker.close()
        await master.close()

    return {"master_http": places[0], "broker_http": places[1], "broker": str(broker.address)}, close


PARTS = {
    "broker": start_broker,
    "master": start_master,
    "clients": start_clients,
    "http": start_http,
    "spark": start_spark,
}
BEGINS_ITSELF = "spark"
"""The part that begins the watch when it has imported what it needs, and before its work."""


async def main(part: str, folder: Path) -> None:
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    watch = Watch(folder, SOURCE)
    given = json.loads(await reader.readline())
    if part == BEGINS_ITSELF:
        said, close = await PARTS[part](folder, given, watch)
    elif part != "clients":
        said, close = await PARTS[part](folder, given, watch)
        watch.begin()
    else:
        watch.begin()
        said, close = await PARTS[part](folder, given, watch)
    master = said.pop("master", None)
    _say(said)
    while line := await reader.readline():
        if line.strip() == b"end":
            try:
                async with asyncio.timeout(20):
                    await close()
            except TimeoutError:
                watch.problem("it did not stop within 20 s")
            _say(watch.report())
            return
        if line.strip() == b"topic":
            watch.creating = asyncio.create_task(_create(master))
        _say(watch.report())


async def _create(master: MasterService) -> None:
    with contextlib.suppress(TubeError):
        await master.create_topic("demo", 3)


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
