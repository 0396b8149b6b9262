"""Bodies and addresses that are no text or nest without end: every entrance over HTTP refuses them in words."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import pytest

from pytubemq.server.cluster import EmbeddedCluster

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]

DEEP = 100_000
BODIES = [
    b"[" * DEEP,
    b'{"a":' * DEEP,
    b'{"name":' + b"[" * DEEP + b"]" * DEEP + b"}",
    b'{"name": "demo", "partitions": ' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
    b'{"name": "\xff\xfe"}',
    b'{"\xff": 1}',
    b'{"name": "\xed\xa0\x80"}',
    b'{"name": "\\ud800"}',
    b'{"\\udfff": 1}',
    b'{"name": "\\u0000\\u001b[2J"}',
    b'{"partitions": 1' + b"0" * 100_000 + b"}",
    b'{"partitions": 1e999999}',
    b"\x00",
    b"\xef\xbb\xbf{}",
    b'{"name": NaN}',
]
PATHS = ["topics", "topics/demo", "topics/%FF%FE", "topics/%ED%A0%80", "topics/%00", "defaults", "groups/g/resets"]
ADDRESSES = [
    "/api/v1/topics/%FF%FE",
    "/api/v1/topics/%ED%A0%80",
    "/api/v1/groups/%FF",
    "/api/v1/groups/%00%1B/resets",
    "/api/v1/%FF",
    "/%FF%FE",
    "/api/v1/topics?%FF=%FE",
    "/api/v1/topics?" + "a=1&" * 10_000,
    "/webapi.htm?method=%FF",
    "/webapi.htm?%FF=1",
    "/webapi.htm?method=admin_query_topic_info&topicName=%ED%A0%80",
    "/webapi.htm?method=admin_query_topic_info&topicName=%00",
    "/webapi.htm?method=admin_add_group_resctrl_info&groupName=%FF&modifyUser=me&confModAuthToken=x",
    "/webapi.htm?method=admin_set_group_flow_control_rule&groupName=g&createUser=me&flowCtrlInfo=" + "%5B" * 10_000,
    "/webapi.htm?method=admin_set_group_flow_control_rule&groupName=g&createUser=me&flowCtrlInfo="
    + quote(r'[{"type":0,"rule":"\ud800"}]'),
    "/webapi.htm?method=admin_bath_add_group_filtercond_info&createUser=me&filterCondJsonSet="
    + quote(r'[{"topicName":"\ud800","groupName":"\udfff"}]'),
    "/broker.htm?method=%FF",
    "/broker.htm?method=admin_manual_set_current_offset&topicName=%FF&groupName=g&partitionId=0&modifyUser=m",
    "/broker.htm?method=admin_set_offset&manualSet=true&modifyUser=m&groupName=g&offsetJsonInfo="
    + "%7B%221%22:" * 2_000,
    "/broker.htm?method=admin_set_offset&manualSet=true&modifyUser=m&groupName=g&offsetJsonInfo="
    + quote(r'{"1:\ud800:0": 5}'),
    "/broker.htm?method=admin_set_offset&manualSet=true&modifyUser=m&groupName=g&offsetJsonInfo=%FF",
    "/master.htm?type=%FF",
    "/metrics?%FF",
]
FORMS = [("GET", b""), ("POST", b"topicName=%FF"), ("POST", b"\xff=\xfe"), ("POST", b"[" * DEEP)]


async def test_what_is_no_text_or_nests_without_end_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with EmbeddedCluster(data_dir=tmp_path) as cluster:
        for body in BODIES:
            code, answer = await _ask(cluster.http, "POST /api/v1/topics", body, "application/json")
            assert code == 400, (body[:40], answer[:300])
        faults = [
            (method, path, body[:40], answer[:300])
            for path in PATHS
            for method in ("POST", "PATCH", "DELETE", "GET")
            for body in BODIES[::3]
            for code, answer in [await _ask(cluster.http, f"{method} /api/v1/{path}", body, "application/json")]
            if code >= 500
        ]
        broker = cluster.broker_pages[1].removesuffix("/broker.htm")
        faults += [
            (method, address[:80], body[:40], answer[:300])
            for base in (cluster.http, broker)
            for address in ADDRESSES
            for method, body in FORMS
            for code, answer in [await _ask(base, f"{method} {address}", body, "application/x-www-form-urlencoded")]
            if code >= 500 or b"the server failed" in answer
        ]
    assert faults == []
    assert "Traceback" not in caplog.text


async def _ask(base: str, head: str, body: bytes, kind: str) -> tuple[int, bytes]:
    place = urlsplit(base)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    lines = [
        f"{head} HTTP/1.1",
        f"Host: {place.netloc}",
        "Connection: close",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    try:
        answer = await asyncio.wait_for(reader.read(), 30)
    except ConnectionResetError:  # it was refused before all of it was read
        return 400, b""
    finally:
        writer.close()
    return int(answer.split(b" ", 2)[1]), answer
