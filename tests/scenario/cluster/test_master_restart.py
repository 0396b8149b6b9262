"""A Master that restarts while consumers read: nothing moves, whoever comes first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytubemq.master.service import MasterService, MasterSettings
from pytubemq.net.client.connection import RpcConnection
from tests.scenario.broker import support
from tests.scenario.master.town import WAIT_MS, FakeConsumer
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.model.ids import Address

pytestmark = pytest.mark.anyio

LONG_S = 300.0
READER = "g_127.0.0.1-1-1-1-Pull-1.0"


async def consumer(master: Address, client_id: str) -> FakeConsumer:
    made = FakeConsumer(await RpcConnection.connect(master))
    made.client_id = client_id
    return made


async def test_a_newcomer_that_is_first_at_the_restarted_master_leaves_readers_what_they_read(tmp_path: Path) -> None:
    settings = MasterSettings(listen=support.LOOPBACK, data_dir=tmp_path / "master", restart_grace_s=LONG_S)
    first = MasterService(settings)
    await first.start()
    address = first.address
    async with support.running(masters=(address,), topics=(), lease_timeout_s=LONG_S) as broker:
        await first.create_topic("demo", 3)
        async with support.connected(broker) as reads:
            assert reads.client_id == READER
            for number in (0, 1):
                assert (await reads.register(number)).err_code == 200
            await first.close()
            again = MasterService(replace(settings, listen=address))
            await again.start()
            try:
                await until(lambda: all(run.online for run in again._brokers.runs.values()) and again._brokers.runs)
                newcomer = await consumer(address, "newcomer")
                assert (await newcomer.register()).success
                told = await newcomer.heartbeat(wait_ms=WAIT_MS)
                assert told.event is not None
                assert [info.partition("#")[2].partition("#")[2] for info in told.event.subscribe_info] == ["demo:2"]
                back = await consumer(address, READER)
                held = [f"{READER}@g#1:{broker.address}#demo:{number}" for number in (0, 1)]
                assert (await back.register(holds=tuple(held))).success
                found = {member.id: member.partitions for member in (await again.group("g")).member_list}
                assert found == {"newcomer": ["1:demo:2"], READER: ["1:demo:0", "1:demo:1"]}
                await newcomer.close()
                await back.close()
            finally:
                await again.close()
