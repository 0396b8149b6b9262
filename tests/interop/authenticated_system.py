"""A Master and a Broker of either system with authentication on, beside those of the matrix."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import httpx

from pytubemq import Credentials
from pytubemq.security.authentication_mode import AuthenticationMode
from pytubemq.server.processes import ServerProcess
from pytubemq.server.sections.broker import BrokerSection
from pytubemq.server.sections.http import HttpSection
from pytubemq.server.sections.master import MasterSection
from pytubemq.server.sections.security import SecuritySection
from pytubemq.server.settings import Settings
from tests.support.ports import free_port
from tests.support.waiting import until_answer

from .processes import TOKEN, JavaBroker, JavaMaster
from .system import WRITABLE_TIMEOUT_S
from .webapi import WebApi, until_answers

if TYPE_CHECKING:
    from pathlib import Path

    from .fetch import Java

TOPIC: Final = "guarded"
OTHER_TOPIC: Final = "forbidden"
"""The member has no permission for it."""
BROKER: Final = Credentials.of("broker", "broker-kR7vXq2mZ9tLw4sBn8yHcD3fGj6pAe")
MEMBER: Final = Credentials.of("member", "member-Qw5nTz8xVb1kLr7mPc4sYh9dGf2jUa")
GRANTED: Final = (
    (BROKER, ("broker cluster *",)),
    (MEMBER, (f"produce topic {TOPIC}", f"consume topic {TOPIC}", "consume group *")),
)
JAVA_SWITCHES: Final = {
    "needBrokerVisitAuth": "true",
    "visitName": BROKER.user,
    "visitPassword": BROKER.secret.reveal(),
    "startVisitTokenCheck": "true",
    "startProduceAuthenticate": "true",
    "startProduceAuthorize": "true",
    "startConsumeAuthenticate": "true",
    "startConsumeAuthorize": "true",
}
"""All that a Java Master can require."""


class AuthenticatedSystem:
    """One Master and one Broker that require authentication."""

    def __init__(self, home: Path, java: Java) -> None:
        self._home = home
        self._java = java
        self._java_master = False
        self._running: list[ServerProcess | JavaMaster | JavaBroker] = []
        self.master = ""
        """`host:port`."""
        self.web = ""
        self.broker = ""

    async def start(self, *, java_master: bool, java_broker: bool) -> None:
        """Start both and wait until the topics can be written to."""
        await self.start_master(java=java_master)
        await self.start_broker(java=java_broker)
        await until_answer(self._is_writable, timeout_s=WRITABLE_TIMEOUT_S, every_s=0.3)

    async def start_master(self, *, java: bool) -> None:
        """Start the Master, and create the users where it has any."""
        self._java_master = java
        if java:
            first = JavaMaster(self._java, self._directory("master"), switches=JAVA_SWITCHES)
            self._running.append(first)
            await first.start()
            await until_answers(first)
            self.master, self.web = first.address, first.web
        else:
            ours = ServerProcess("master", self._settings("master"))
            self._running.append(ours)
            where = await ours.start()
            assert where.master is not None
            assert where.http is not None
            self.master, self.web = where.master, where.http
            await self._create_users()

    async def start_broker(
        self, *, java: bool, user: Credentials = BROKER, advertised: int | None = None, broker_id: int = 1
    ) -> JavaBroker | ServerProcess:
        """Start a Broker as a user; whether it is let in is another matter. `advertised`: a port before its own."""
        port = free_port()
        name = f"broker-{broker_id}"
        host = f"127.0.0.{broker_id}"  # a Java Master takes one Broker per host
        self.broker = f"{host}:{port}"
        broker: JavaBroker | ServerProcess
        if java:
            broker = JavaBroker(
                self._java, self._directory(name), broker_id=broker_id, host=host, masters=self.master, port=port,
                switches={
                    "visitMasterAuth": "true", "visitName": user.user, "visitPassword": user.secret.reveal(),
                },
            )  # fmt: skip
        else:
            settings = self._settings(name, host=host, port=port, user=user, advertised=advertised, broker_id=broker_id)
            broker = ServerProcess("broker", settings)
        self._running.append(broker)
        api = WebApi(self.web)
        await api.modify(
            "admin_add_broker_configure", brokerId=broker_id, brokerIp=host, brokerPort=advertised or port,
            manageStatus="online",
        )  # fmt: skip
        topics = f"{TOPIC},{OTHER_TOPIC}"
        await api.modify("admin_add_new_topic_record", brokerId=broker_id, topicName=topics, numPartitions=2)
        await broker.start()
        return broker

    def master_log(self) -> str:
        """What our Master has logged."""
        master = self._running[0]
        assert isinstance(master, ServerProcess)
        return master.log_path.read_text("utf-8")

    async def close(self) -> None:
        """End both, the Broker first."""
        for one in reversed(self._running):
            await (one.close() if isinstance(one, ServerProcess) else one.kill())

    async def _is_writable(self) -> bool:
        rows: list[dict[str, Any]] = []
        with contextlib.suppress(httpx.HTTPError):  # a Java Master answers 500 while its Broker registers
            rows = await WebApi(self.web).query(
                "admin_query_topic_info", topicName=f"{TOPIC},{OTHER_TOPIC}", confModAuthToken=TOKEN
            )
        return len(rows) == 2 and all(row.get("isSrvAcceptPublish") for row in rows)

    async def grant(self, user: Credentials, words: str) -> None:
        """Grant a permission at our Master, as `operation kind pattern`."""
        operation, kind, pattern = words.split()
        await self._post(f"/users/{user.user}/permissions", operation=operation, kind=kind, pattern=pattern)

    async def _create_users(self) -> None:
        for user, permissions in GRANTED:
            await self._post("/users", name=user.user, secret=user.secret.reveal())
            for words in permissions:
                await self.grant(user, words)

    async def _post(self, path: str, **body: str) -> None:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(base_url=f"{self.web}/api/v1", headers=headers, trust_env=False) as client:
            (await client.post(path, json=body)).raise_for_status()

    def _settings(
        self,
        name: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        user: Credentials | None = None,
        advertised: int | None = None,
        broker_id: int = 1,
    ) -> Settings:
        directory = self._directory(name)
        secret = directory / "user.secret"
        if user is not None:
            secret.touch(mode=0o600)
            secret.write_text(user.secret.reveal())
        return Settings(
            data=str(directory),
            master=MasterSection(listen=f"127.0.0.1:{free_port()}"),
            broker=BrokerSection(
                id=broker_id,
                listen=f"{host}:{port}",
                http_listen="",
                masters=[self.master] if self.master else [],
                advertised="" if advertised is None else f"127.0.0.1:{advertised}",
            ),
            http=HttpSection(listen=f"127.0.0.1:{free_port()}", token=TOKEN),
            security=SecuritySection(
                # Under a Java Master its switches decide, as it sends no rules.
                authentication=AuthenticationMode.OFF if self._java_master else AuthenticationMode.ENFORCED,
                user="" if user is None else user.user,
                secret_file="" if user is None else str(secret),
            ),
        )

    def _directory(self, name: str) -> Path:
        found = self._home / name
        found.mkdir(parents=True)
        return found
