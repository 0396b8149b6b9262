"""Requests recorded from the Java system, asked of our Master: same codes, same set of fields in the answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytubemq.net.client.connection import RpcConnection
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.master import HeartRequestB2M
from pytubemq.wire.rpc.methods import METHODS
from pytubemq.wire.serialization.message_bytes import decode, encode
from tests.scenario.master.recordings import ONE, TWO, ask, body, field_set, prepare, recorded, two_brokers
from tests.scenario.master.town import FakeConsumer, town

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


async def test_producers(tmp_path: Path) -> None:
    prepare(tmp_path, ONE, TWO)
    async with town(data_dir=tmp_path) as t:
        await two_brokers(t)
        java = await RpcConnection.connect(t.master.address, capabilities=Capability(0))
        checksums: dict[int, int] = {}
        for line, recorded_line in recorded("producer-master.jsonl"):
            if recorded_line["err_code"] == "exception":
                continue  # from a standby, which there is none of here
            spec = METHODS[line["method"]]
            request, expected = decode(spec.request, body(line)), decode(spec.response, body(recorded_line))
            if hasattr(request, "broker_check_sum"):
                known = checksums.get(request.broker_check_sum, request.broker_check_sum)
                request = replace(request, broker_check_sum=known)
            answer = await ask(java, line, encode(request))
            if hasattr(expected, "broker_check_sum"):
                checksums[expected.broker_check_sum] = answer.broker_check_sum
            assert field_set(answer) == field_set(expected), line["name"]
            assert answer.err_code == expected.err_code, line["name"]
            for same in ("topic_infos", "broker_infos", "appd_config", "err_msg"):
                assert getattr(answer, same, None) == getattr(expected, same, None), (line["name"], same)
        await java.close()


async def test_consumers(tmp_path: Path) -> None:
    prepare(tmp_path, ONE, TWO)
    async with town(data_dir=tmp_path) as t:
        await two_brokers(t)
        first = await t.peer(FakeConsumer, group="g_conf", client_id="g_conf_first", capabilities=Capability(0))
        await first.register()
        java = await RpcConnection.connect(t.master.address, capabilities=Capability(0))
        seen: set[int] = set()
        for line, recorded_line in recorded("consumer-master.jsonl"):
            spec = METHODS[line["method"]]
            expected = decode(spec.response, body(recorded_line))
            answer = await ask(java, line, body(line))
            # When an event comes depends on the Java Master's clock, so only what it looks like can be the same.
            assert field_set(answer) - {"event"} == field_set(expected) - {"event"}, line["name"]
            assert answer.err_code == expected.err_code, line["name"]
            if getattr(answer, "event", None) is not None:
                assert field_set(answer.event) == {"rebalance_id", "op_type", "subscribe_info"}
            seen.add(answer.err_code)
        assert seen == {200, 424, 425, 426, 431}
        await java.close()


async def test_brokers(tmp_path: Path) -> None:
    known = tmp_path / "known"
    prepare(tmp_path, TWO)
    prepare(known, ONE, TWO)
    async with (
        town(data_dir=tmp_path, auto_register_brokers=False) as strict,
        town(data_dir=known, auto_register_brokers=False) as t,
    ):
        refusing = await RpcConnection.connect(strict.master.address, capabilities=Capability(0))
        java = await RpcConnection.connect(t.master.address, capabilities=Capability(0))
        sync: dict[tuple[int, int], tuple[int, int]] = {}
        for line, recorded_line in recorded("broker-master.jsonl"):
            spec = METHODS[line["method"]]
            request, expected = decode(spec.request, body(line)), decode(spec.response, body(recorded_line))
            if isinstance(request, HeartRequestB2M):
                ids = sync[request.cur_broker_conf_id, request.conf_check_sum_id]
                if expected.take_conf_info:
                    ids = (0, 0)  # the recorded Master had just changed something
                request = replace(request, cur_broker_conf_id=ids[0], conf_check_sum_id=ids[1])
            answer = await ask(refusing if expected.err_code == 400 else java, line, encode(request))
            # The recorded cluster got its settings, hence its flow control id, between two of these.
            assert field_set(answer) - {"flow_control_info"} == field_set(expected) - {"flow_control_info"}, line[
                "name"
            ]
            assert answer.err_code == expected.err_code, line["name"]
            for same in ("take_conf_info", "need_report_data", "take_remove_topic_info", "broker_default_conf_info"):
                assert getattr(answer, same, None) == getattr(expected, same, None), (line["name"], same)
            if getattr(expected, "cur_broker_conf_id", None) is not None:
                ours = (answer.cur_broker_conf_id, answer.conf_check_sum_id)
                sync[expected.cur_broker_conf_id, expected.conf_check_sum_id] = ours
        await asyncio.gather(refusing.close(), java.close())
