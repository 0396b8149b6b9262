"""What a browser finds at the addresses that a server prints."""

from __future__ import annotations

import re

import httpx
import pytest

from pytubemq.server.cluster import EmbeddedCluster

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


async def links(browser: httpx.AsyncClient, page: str) -> list[str]:
    """Where the page leads."""
    answer = await browser.get(page)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    return re.findall(r'href="([^"]*)"', answer.text)


async def test_each_link_of_a_page_leads_somewhere() -> None:
    async with EmbeddedCluster() as cluster:
        await cluster.create_topic("demo", partitions=1)
        broker = cluster.broker_pages[1].removesuffix("/broker.htm")
        for server, methods in ((cluster.http, "/webapi.htm"), (broker, "/broker.htm")):
            async with httpx.AsyncClient(base_url=server, headers=BROWSER) as browser:
                first = await links(browser, "/")
                assert {methods, "/metrics"} <= set(first)
                listed = await links(browser, methods)
                assert f"{methods}?method=admin_get_methods" in listed
                for found in {*first, *listed} - {methods}:
                    answer = await browser.get(found)
                    assert answer.status_code == 200, found
                    if found in listed:
                        assert answer.json()["result"] is True, found


async def test_a_program_gets_what_it_got_before() -> None:
    async with EmbeddedCluster() as cluster, httpx.AsyncClient() as program:
        for page in (f"{cluster.http}/webapi.htm", cluster.broker_pages[1]):
            answer = (await program.get(page)).json()
            assert (answer["result"], answer["errCode"]) == (False, 400)
            assert "admin_get_methods" in answer["errMsg"]
        page = cluster.broker_pages[1].removesuffix("broker.htm")
        assert (await program.get(page, params={"method": "admin_query_group"})).json()["result"] is True
        assert (await program.post(page, data={"method": "admin_query_group"})).json()["result"] is True
        assert (await program.post(page)).json()["result"] is False
