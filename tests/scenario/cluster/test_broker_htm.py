"""`/broker.htm` of a running Broker, over HTTP, while a consumer reads."""

from __future__ import annotations

import base64
import logging
import re
import socket
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pytubemq import Start, connect
from pytubemq.errors import ConfigError
from pytubemq.server.cluster import EmbeddedCluster
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytubemq import Batch, Consumer

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]

REFERENCE = Path(__file__).parents[3].joinpath("docs/reference/broker-htm.md").read_text("utf-8")


class Page:
    """Calls methods of a Broker."""

    def __init__(self, http: httpx.AsyncClient, url: str) -> None:
        self.http = http
        self.url = url

    async def __call__(self, method: str, **params: object) -> dict[str, Any]:
        answer = await self.http.post(self.url, data={"method": method, **params})
        assert answer.status_code == 200
        return answer.json()  # type: ignore[no-any-return]

    async def good(self, method: str, **params: object) -> dict[str, Any]:
        found = await self(method, **params)
        assert (found["result"], found["errCode"]) == (True, 0), found
        return found

    async def refused(self, method: str, **params: object) -> tuple[int, str]:
        found = await self(method, **params)
        assert found["result"] is False
        return found["errCode"], found["errMsg"]


@asynccontextmanager
async def cluster(**settings: object) -> AsyncIterator[tuple[EmbeddedCluster, Page]]:
    flags = {key.replace("__", "."): value for key, value in settings.items()}
    async with EmbeddedCluster(settings=flags) as running, httpx.AsyncClient() as http:
        await running.create_topic("demo", partitions=2)
        yield running, Page(http, running.broker_pages[1])


async def next_batch(consumer: Consumer) -> Batch:
    batch = await consumer.next_batch()
    assert batch is not None
    return batch


async def test_a_consumer_is_looked_at_and_moved() -> None:
    async with cluster() as (running, page), connect(running.master) as tube:
        async with tube.producer("demo") as producer:
            for number in range(10):
                await producer.send(b"%d" % number, partition=0, msg_type="t")
        published = (await page.good("admin_query_pubinfo", topicName="demo"))["dataSet"][0]
        assert published["itemCount"] == 2
        assert published["offsetInfo"][0]["offsetMax"] == 280
        async with tube.consumer("g", "demo", start=Start.EARLIEST) as consumer:
            batch = await next_batch(consumer)
            await batch.confirm()
            held = (await page.good("admin_query_broker_all_consumer_info", group="g"))["dataSet"]
            assert {row["partitionId"] for row in held} == {0, 1}
            (told,) = re.findall(r"^\| `admin_get_group_detail_info` \|(.*)", REFERENCE, re.MULTILINE)
            assert held[0].keys() == set(re.findall(r"`(\w+)`", told)), "the reference names every field"
            assert len({row["consumerId"] for row in held}) == 1
            assert {(row["receivedFrom"], row["curFreqLimit"], row["totalSentSec"]) for row in held} == {
                ("127.0.0.1", 0, 0)
            }
            registered = (await page.good("admin_query_consumer_regmap"))["dataSet"]
            assert [row["Partition"] for row in registered] == ["g:demo:0", "g:demo:1"]
            (group,) = (await page.good("admin_query_offset", groupName="g"))["dataSet"]
            assert (group["groupName"], group["topicCount"], group["subInfo"][0]["partCount"]) == ("g", 1, 2)
            before = group["subInfo"][0]["offsets"][0]
            assert (before["curOffset"], before["offsetLag"], before["dataLag"]) == (280, 0, 0)
            moved = await page.good(
                "admin_manual_set_current_offset", topic="demo", group="g", pid=0, offset=196, modifyUser="me"
            )
            assert moved["oldOffset"] == 280
            again = await next_batch(consumer)
            assert [message.body for message in again] == [b"7", b"8", b"9"]
            detail = await page.good(
                "admin_query_group_offset", topicName="demo", groupName="g", partitionId=0, requireRealOffset="true"
            )
            assert (detail["zkOffset"], detail["tmpOffset"], detail["minOffset"]) == (196, 84, 0)
            assert (detail["maxOffset"], detail["curRdDltDataOffset"]) == (280, 0)
            await again.confirm()


async def test_offsets_are_set_cloned_and_removed() -> None:
    async with cluster() as (running, page), connect(running.master) as tube:
        async with tube.producer("demo") as producer:
            for number in range(4):
                await producer.send(b"%d" % number, partition=1, attrs={"n": str(number)})
        offsets = '{"1:demo:1": 57, "1:demo:0": 999999, "2:other:0": 5}'
        made = await page.good(
            "admin_set_offset", groupName="a,b", manualSet="true", offsetJsonInfo=offsets, modifyUser="me"
        )
        assert made["changed"] == 4
        elsewhere = {"manualSet": "true", "offsetJsonInfo": '{"2:demo:0": 0}', "modifyUser": "me"}
        assert (await page.good("admin_set_offset", groupName="a", **elsewhere))["changed"] == 0
        made = await page.good("admin_clone_offset", sourceGroupName="a", targetGroupName="c", modifyUser="me")
        assert made["changed"] == 2
        await page.good("admin_set_offset", groupName="b", manualSet="false", topicName="demo", modifyUser="me")
        found = {
            row["groupName"]: [one["curOffset"] for one in row["subInfo"][0]["offsets"]]
            for row in (await page.good("admin_query_offset"))["dataSet"]
        }
        assert found == {"a": [0, 56], "b": [0, 112], "c": [0, 56]}
        assert (await page.good("admin_rmv_offset", groupName="a,b", modifyUser="me"))["changed"] == 4
        assert (await page.good("admin_rmv_offset", groupName="nobody", modifyUser="me"))["changed"] == 0
        names = (await page.good("admin_query_group", divide="true"))["dataSet"]
        assert names == [
            {"type": "online", "groupName": [], "groupCount": 0},
            {"type": "offline", "groupName": ["c"], "groupCount": 1},
        ]
        async with tube.consumer("c", "demo") as consumer:
            assert [message.body for message in await next_batch(consumer)] == [b"2", b"3"]
        shown = (await page.good("admin_snapshot_message", topicName="demo", partitionId=1))["dataSet"]
        assert [base64.b64decode(row["data"]) for row in shown] == [b"1", b"2", b"3"]
        assert shown[0]["attr"] == "n=1"
        (stored,) = (await page.good("admin_query_broker_all_store_info"))["dataSet"]
        assert (stored["storeInfo"][0]["numPartition"], stored["storeInfo"][0]["partitionInfo"][1]["maxOffset"]) == (
            2,
            112,
        )


async def test_bad_input_is_told_in_words_and_changes_nothing() -> None:
    async with cluster() as (_, page):
        calls: list[tuple[str, dict[str, object], int, str]] = [
            ("", {}, 400, "method is missing"),
            ("nonsense", {}, 400, "no such method"),
            ("admin_set_offset_by_time", {}, 400, "is not offered"),
            ("admin_query_group_offset", {"topicName": "demo", "groupName": "g"}, 400, "partitionId is missing"),
            ("admin_query_group_offset", {"topic": "no", "group": "g", "pid": 0}, 404, "topic 'no' does not exist"),
            ("admin_query_group_offset", {"topic": "demo", "group": "g", "pid": 9}, 404, "no partition 9"),
            ("admin_snapshot_message", {"topic": "demo"}, 401, "no message"),
            ("admin_clone_offset", {"srcGroup": "g", "tgtGroup": "h", "mur": "me"}, 404, "group g has no offset"),
            ("admin_set_offset", {"group": "g", "manSet": "true", "mur": "me"}, 400, "offsetJsonInfo is missing"),
            ("admin_set_offset", {"group": "g", "manSet": "false", "mur": "me"}, 400, "topicName is missing"),
            (
                "admin_set_offset",
                {"group": "g", "manSet": "true", "offsetInfo": '{"1:no:0":1}', "mur": "me"},
                404,
                "no",
            ),
            ("admin_rmv_offset", {"group": "g"}, 400, "modifyUser"),
        ]
        for method, params, code, said in calls:
            found_code, text = await page.refused(method, **params)
            assert found_code == code, (method, text)
            assert said in text
        unknown = await page.good("admin_query_group_offset", topic="demo", group="g", pid=0, dko=1)
        assert (unknown["zkOffset"], unknown["tmpOffset"], unknown["curReadDataOffset"]) == (-2, 0, -1)
        assert (await page.good("admin_query_group"))["dataSet"][0]["groupName"] == []
        assert (await page.good("admin_query_offset", groupName="g"))["totalCnt"] == 0
        listed = await page.good("admin_get_methods")
        assert {"method": "admin_rmv_offset", "needAuth": True} in listed["dataSet"]
        # any path will do, and a question may be a GET
        answer = await page.http.get(
            page.url.replace("broker", "webapi"), params={"method": "admin_query_server_version"}
        )
        assert answer.json()["data"][0]["version"]


async def test_changes_need_the_token_and_never_tell_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    change = {"groupName": "g", "topicName": "demo", "manualSet": "false", "modifyUser": "me"}
    async with cluster(http__token="open-7Kd2fQ0xVb5Zr8LmW3yNt9") as (_, page):
        assert "token is missing" in (await page.refused("admin_set_offset", **change))[1]
        wrong = await page.refused("admin_set_offset", confModAuthToken="open-7Kd", **change)
        assert "token is wrong" in wrong[1]
        await page.good("admin_set_offset", confModAuthToken="open-7Kd2fQ0xVb5Zr8LmW3yNt9", **change)
        bearer = {"authorization": "Bearer open-7Kd2fQ0xVb5Zr8LmW3yNt9"}
        answer = await page.http.post(page.url, data={"method": "admin_set_offset", **change}, headers=bearer)
        assert answer.json()["result"]
        other_site = {"sec-fetch-site": "cross-site", **bearer}
        answer = await page.http.post(page.url, data={"method": "admin_set_offset", **change}, headers=other_site)
        assert not answer.json()["result"]
        misled = await page.http.get(page.url, headers={"host": "evil.example"})
        assert misled.status_code == 421
    assert "open-sesa" not in caplog.text


async def test_a_taken_port_is_named_with_what_to_set() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"broker.http_listen.*{address}.*in use") as refused:
            async with cluster(broker__http_listen=address):
                pass
        assert "set broker.http_listen" in str(refused.value.hint)


async def test_a_broker_may_do_without() -> None:
    async with EmbeddedCluster(settings={"broker.http_listen": ""}) as running:
        assert running.broker_pages == {}
        await until(lambda: running.brokers)
