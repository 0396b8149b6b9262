"""The original's tool for metadata, CliMetaDataBRU: it restores into our Master what it saved of a Java one, and on.

The tool itself compares at the end what it wrote with what it is told; the test also asks both Masters.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.admin.webapi.authorization import Access
from pytubemq.server.compose import ROLES, Node
from pytubemq.server.sources import load_settings
from tests.scenario.webapi.house import house
from tests.support.ports import free_port
from tests.support.proc import DIE_WITH_US

from .fetch import fetch
from .processes import TOKEN, JavaMaster
from .webapi import WebApi, until_answers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from .fetch import Java

pytestmark = [pytest.mark.interop, pytest.mark.anyio]

TOOL = "org.apache.inlong.tubemq.server.tools.cli.CliMetaDataBRU"
ANY = "127.0.0.1:0"
TOOL_TIMEOUT_S = 60.0
RULES = [{"type": 1, "rule": [{"zeroCnt": 3, "freqInMs": 300}]}]
QUERIES = (
    "admin_query_cluster_default_setting",
    "admin_query_broker_configure",
    "admin_query_topic_control_info",
    "admin_query_topic_deploy_configure",
    "admin_query_group_resctrl_info",
    "admin_query_group_csmctrl_info",
)
NOT_KEPT = {"serialId", "dataVersionId", "isConfChanged", "isConfLoaded"}
"""What a Master gives to a record by itself, and how a Broker is that runs."""
MADE_BY_MASTER = "__offset_history__"
"""The topic that a Master makes with each Broker, so when it was made is each Master's own, too."""
DATES = {"createDate", "modifyDate"}


@dataclass
class Tool:
    """The tool, and where it keeps what it saved."""

    java: Java
    saved: Path

    async def backup(self, web: str) -> None:
        await self._run(web, "backup", "backup finished!")

    async def recover(self, web: str) -> None:
        await self._run(web, "recovery", "recovery finished!", "-token", TOKEN)

    async def _run(self, web: str, what: str, end: str, *more: str) -> None:
        process = await asyncio.create_subprocess_exec(
            *DIE_WITH_US, self.java.command, "-Dinterop.level=info",
            f"-Dlog4j.configurationFile={self.java.log_config}", "-cp",
            self.java.server_path, TOOL, "--master-servers", web.removeprefix("http://"), "-type", what,
            "-path", str(self.saved), *more, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        async with asyncio.timeout(TOOL_TIMEOUT_S):
            said, _ = await process.communicate()
        assert end in said.decode().lower(), said.decode()


async def fill(api: WebApi, *, port: int = 8123) -> None:
    """Something of every kind: Brokers, topics with records that the Master made and that we did, and groups."""
    await api.modify(
        "admin_set_cluster_default_setting", maxMsgSizeInMB=2, numPartitions=3, flowCtrlEnable=True,
        flowCtrlInfo=json.dumps(RULES),
    )  # fmt: skip
    for number in (1, 2):
        await api.modify(
            "admin_add_broker_configure", brokerId=number, brokerIp=f"127.0.0.{number}", manageStatus="online",
            deletePolicy="delete,20h", brokerPort=port,
        )  # fmt: skip
    await api.modify("admin_add_new_topic_record", brokerId="1,2", topicName="made,made2", numTopicStores=2)
    await api.modify("admin_add_new_topic_record", brokerId=2, topicName="told", acceptPublish=False)
    await api.modify("admin_update_topic_control_info", topicName="told", topicNameId=7, enableAuthControl=True)
    await api.modify(
        "admin_add_group_csmctrl_info", topicName="told", groupName="g1", filterEnable=True, filterConds="b,a"
    )
    await api.modify("admin_add_black_consumergroup_info", topicName="made", groupName="g2")
    await api.modify(
        "admin_add_group_resctrl_info", groupName="g3", flowCtrlEnable=True, flowCtrlInfo=json.dumps(RULES)
    )


def kept(row: dict[str, Any]) -> dict[str, Any]:
    """A record without what is its Master's own."""
    left_out = NOT_KEPT | DATES if row.get("topicName") == MADE_BY_MASTER else NOT_KEPT
    return {key: value for key, value in row.items() if key not in left_out}


async def records(api: WebApi) -> dict[str, list[Any]]:
    """All that a Master keeps, without what is its own."""
    return {query: sorted(map(kept, await api.query(query)), key=repr) for query in QUERIES}


@contextlib.asynccontextmanager
async def java_master(java: Java, directory: Path) -> AsyncIterator[WebApi]:
    """A Java Master that answers; its API, whose `base` is where it is."""
    master = JavaMaster(java, directory)
    await master.start()
    try:
        api = WebApi(master.web)
        await until_answers(master)
        yield api
    finally:
        await master.kill()


async def test_it_moves_the_metadata_of_a_java_master_into_ours_and_on(tmp_path: Path) -> None:
    java = fetch()
    first, second = Tool(java, tmp_path / "first"), Tool(java, tmp_path / "second")
    async with java_master(java, tmp_path) as theirs:
        await fill(theirs)
        before = await records(theirs)
        assert all(before.values())
        await first.backup(theirs.base)
    async with house(access=Access(TOKEN)) as here:
        web = str(here.client.base_url).rstrip("/")
        await first.recover(web)
        assert await records(WebApi(web)) == before
        await second.backup(web)
    async with house(access=Access(TOKEN)) as here:
        web = str(here.client.base_url).rstrip("/")
        await second.recover(web)
        assert await records(WebApi(web)) == before


async def test_it_moves_metadata_into_a_cluster_that_runs_and_has_made_its_own_broker(tmp_path: Path) -> None:
    java = fetch()
    tool = Tool(java, tmp_path / "saved")
    port = free_port()
    async with java_master(java, tmp_path) as theirs:
        await fill(theirs, port=port)
        before = await records(theirs)
        await tool.backup(theirs.base)
    listen = {"master.listen": ANY, "http.listen": ANY, "broker.listen": f"127.0.0.1:{port}", "broker.http_listen": ANY}
    settings = {**listen, "data": str(tmp_path / "data"), "http.token": TOKEN}
    node = Node(load_settings(None, environ={}, flags=settings), ROLES["all"])
    where = await node.start()
    try:
        assert where.http is not None
        assert node.master is not None
        assert [record.address.port for record in node.master.catalogue.brokers.values()] == [port]
        await tool.recover(where.http)
        assert await records(WebApi(where.http)) == before
        assert await node.master.await_served(1), "the Broker has what the metadata gives it"
    finally:
        await node.close()
    node = Node(load_settings(None, environ={}, flags=settings), ROLES["all"])
    await node.start()
    assert node.refused_by_master is None, "it comes back to the record that the tool wrote"
    await node.close()
