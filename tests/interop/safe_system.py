"""A Master and a Broker of either system with TLS in both directions, beside those of the matrix."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import httpx

from pytubemq.model.tls_options import TlsOptions
from pytubemq.server.processes import ServerProcess
from pytubemq.server.sections.broker import BrokerSection
from pytubemq.server.sections.http import HttpSection
from pytubemq.server.sections.master import MasterSection
from pytubemq.server.sections.tls import TlsSection
from pytubemq.server.settings import Settings
from pytubemq.server.trial_certificates import key_of, make_trial_certificates
from tests.support.ports import free_port
from tests.support.waiting import until_answer

from .processes import TOKEN, JavaBroker, JavaMaster
from .stores import java_stores
from .system import WRITABLE_TIMEOUT_S
from .webapi import WebApi, until_answers

if TYPE_CHECKING:
    from pathlib import Path

    from .fetch import Java
    from .stores import JavaStores

TOPIC: Final = "safe"


class SafeSystem:
    """One Master and one Broker with TLS, and their certificates. Servers demand a certificate of each client."""

    def __init__(self, home: Path, java: Java) -> None:
        self._home = home
        self._java = java
        self._files = make_trial_certificates(home / "certs")
        self._server: JavaStores = java_stores(self._files, self._files.server)
        self.client: JavaStores = java_stores(self._files, self._files.client)
        self._running: list[ServerProcess | JavaMaster | JavaBroker] = []
        self.master = ""
        """`host:port` for TLS."""
        self.web = ""

    @property
    def options(self) -> TlsOptions:
        """Those of our clients."""
        files = self._files
        return TlsOptions(str(files.ca), str(files.client), str(key_of(files.client)))

    async def start(self, *, java_master: bool, java_broker: bool) -> None:
        """Start both and wait until the topic can be written to."""
        section = self._server.server_section(two_way=True)
        if java_master:
            first = JavaMaster(self._java, self._directory("master"), tls=section)
            self._running.append(first)
            await first.start()
            await until_answers(first)
            plain, self.master, self.web = first.address, f"127.0.0.1:{first.tls_port}", first.web
        else:
            ours = ServerProcess("master", self._settings("master"))
            self._running.append(ours)
            where = await ours.start()
            assert where.master is not None
            assert where.master_tls is not None
            assert where.http is not None
            plain, self.master, self.web = where.master, where.master_tls, where.http
        broker: JavaBroker | ServerProcess
        if java_broker:
            broker = JavaBroker(
                self._java, self._directory("broker"), broker_id=1, host="127.0.0.1", masters=plain, tls=section
            )
            port, tls_port = broker.port, broker.tls_port
        else:
            port, tls_port = free_port(), free_port()
            broker = ServerProcess("broker", self._settings("broker", port=port, tls_port=tls_port, master=self.master))
        self._running.append(broker)
        api = WebApi(self.web)
        await api.modify(
            "admin_add_broker_configure", brokerId=1, brokerIp="127.0.0.1", brokerPort=port, brokerTLSPort=tls_port,
            manageStatus="online",
        )  # fmt: skip
        await api.modify("admin_add_new_topic_record", brokerId=1, topicName=TOPIC, numPartitions=2)
        await broker.start()
        await until_answer(self._is_writable, timeout_s=WRITABLE_TIMEOUT_S, every_s=0.3)

    async def close(self) -> None:
        for one in reversed(self._running):
            await (one.close() if isinstance(one, ServerProcess) else one.kill())

    async def _is_writable(self) -> bool:
        rows: list[dict[str, Any]] = []
        with contextlib.suppress(httpx.HTTPError):  # a Java Master answers 500 while its Broker registers
            rows = await WebApi(self.web).query("admin_query_topic_info", topicName=TOPIC)
        return bool(rows) and bool(rows[0].get("isSrvAcceptPublish"))

    def _settings(self, name: str, *, port: int = 0, tls_port: int = 0, master: str = "") -> Settings:
        files = self._files
        return Settings(
            data=str(self._directory(name)),
            master=MasterSection(listen=f"127.0.0.1:{free_port()}", tls_port=free_port()),
            broker=BrokerSection(
                listen=f"127.0.0.1:{port}", tls_port=tls_port, http_listen="", masters=[master] if master else []
            ),
            http=HttpSection(listen=f"127.0.0.1:{free_port()}", token=TOKEN),
            tls=TlsSection(
                cert=str(files.server),
                key=str(key_of(files.server)),
                client_ca=str(files.ca),
                ca=str(files.ca),
                client_cert=str(files.server),
                client_key=str(key_of(files.server)),
            ),
        )

    def _directory(self, name: str) -> Path:
        found = self._home / name
        found.mkdir(parents=True)
        return found
