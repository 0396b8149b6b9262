"""The statistics calls of `/broker.htm`, against a running Broker."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from pytubemq import connect
from pytubemq.admin.webapi.methods import web_statistics
from pytubemq.server.cluster import EmbeddedCluster

pytestmark = [pytest.mark.scenario, pytest.mark.anyio]

SERVICE = {
    "reset_time", "detailStatsClosed", "file_exc_cnt", "zk_exc_cnt", "offset_file_exc_cnt", "broker_timeout_cnt",
    "broker_hb_exc_cnt", "consume_online_cnt", "consume_timeout_cnt", "msg_put_overflow", "file_sync_dlt",
    "offset_file_sync_dlt", "zk_sync_dlt", "msg_put_dlt", "msg_get_dlt", "msg_confirm_dlt",
}  # fmt: skip
STORE = {
    "reset_time", "isClosed", "msg_append_size", "msg_append_dlt", "msg_append_fail", "cache_data_full",
    "cache_index_full", "cache_count_full", "cache_time_full", "cache_flush_pending", "cache_realloc",
    "file_total_msg_cnt", "file_total_data_size", "file_total_index_size", "file_flush_dlt", "file_flush_data_size",
    "file_flush_msg_cnt", "file_data_seg", "file_index_seg", "file_meta_flush", "file_data_full", "file_count_full",
    "file_time_full", "end_time",
}  # fmt: skip
"""Answered by Broker 2.4.0 of the original; it shows cache_data_full twice and cache_index_full never."""


class Page:
    """One Broker's page."""

    def __init__(self, url: str, http: httpx.AsyncClient) -> None:
        self.url = url
        self.http = http

    async def ask(self, method: str, **params: object) -> dict[str, Any]:
        found = (await self.http.post(self.url, data={"method": method, **params})).json()
        assert isinstance(found, dict)
        return found

    async def good(self, method: str, **params: object) -> list[Any]:
        found = await self.ask(method, **params)
        assert found["result"], found
        assert found.get("count", len(found["data"])) == len(found["data"])
        rows = found["data"]
        assert isinstance(rows, list)
        return rows

    async def metrics(self, **params: object) -> dict[str, Any]:
        (row,) = await self.good("admin_get_metrics_info", **params)
        assert (row["nodeRole"], row["count"], len(row["probeTime"])) == ("Broker", 2, 14)
        metrics = row["metrics"]
        assert set(metrics["serviceStatus"]) == SERVICE
        assert set(metrics["webAPI"]) == {"reset_time", "isClosed", "web_calls", "methods"}
        assert isinstance(metrics, dict)
        return metrics


async def test_statistics_count_from_snapshot_to_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_statistics, "SNAPSHOT_S", 0.0)
    async with EmbeddedCluster() as cluster, connect(cluster.master) as tube, httpx.AsyncClient() as http:
        await cluster.create_topic("demo", partitions=2)
        page = Page(cluster.broker_pages[1], http)
        assert (await page.good("admin_get_msgstore_stats"))[0]["topicName"] == "demo"
        async with tube.producer("demo") as producer:
            for number in range(10):
                await producer.send(b"x" * 100, partition=number % 2)
        first = await page.metrics(needRefresh="true")
        assert 1 <= first["serviceStatus"]["msg_put_dlt"]["count"] <= 10
        assert first["webAPI"]["methods"]["method_admin_get_msgstore_stats"]["count"] == 1
        again = await page.metrics()
        assert again["serviceStatus"]["msg_put_dlt"]["count"] == 0
        assert list(again["webAPI"]["methods"]) == ["method_admin_get_metrics_info"]

        (topic,) = await page.good("admin_get_msgstore_stats", topicName="demo", needRefresh="true")
        (store,) = topic["details"]
        previous, current = store["msgStore"]
        assert set(previous) == set(current) == STORE
        assert (previous["file_total_msg_cnt"], current["file_total_msg_cnt"]) == (0, 10)
        assert current["file_total_data_size"] > 1_000
        (topic,) = await page.good("admin_get_msgstore_stats", topicName="demo")
        previous, current = topic["details"][0]["msgStore"]
        assert (previous["file_total_msg_cnt"], current["file_total_msg_cnt"]) == (10, 0)
        assert await page.good("admin_get_msgstore_stats", topicName="nope") == [{"topicName": "nope", "details": []}]


async def test_what_is_disabled_stands_still_until_it_is_enabled() -> None:
    async with EmbeddedCluster() as cluster, connect(cluster.master) as tube, httpx.AsyncClient() as http:
        await cluster.create_topic("demo", partitions=1)
        page = Page(cluster.broker_pages[1], http)
        await page.good("admin_disable_all_stats")
        async with tube.producer("demo") as producer:
            await producer.send(b"x")
            closed = await page.metrics()
            assert closed["serviceStatus"]["detailStatsClosed"]
            assert closed["webAPI"]["isClosed"]
            assert closed["serviceStatus"]["msg_put_dlt"]["count"] == 0
            await page.good("admin_enable_stats", statsType="all")
            await producer.send(b"x")
        opened = await page.metrics()
        assert not opened["serviceStatus"]["detailStatsClosed"]
        assert opened["serviceStatus"]["msg_put_dlt"]["count"] == 1
        assert not opened["webAPI"]["isClosed"]
        await page.good("admin_disable_stats", statsType="webAPI", topicName="demo")
        found = await page.metrics()
        assert (found["webAPI"]["isClosed"], found["serviceStatus"]["detailStatsClosed"]) == (True, False)


async def test_a_kind_that_does_not_exist_is_refused() -> None:
    async with EmbeddedCluster() as cluster, httpx.AsyncClient() as http:
        page = Page(cluster.broker_pages[1], http)
        for params, said in (({}, "statsType is missing"), ({"statsType": "bad"}, "one of all, serviceStatus, webAPI")):
            found = await page.ask("admin_enable_stats", **params)
            assert (found["result"], found["errCode"]) == (False, 400)
            assert said in found["errMsg"]
