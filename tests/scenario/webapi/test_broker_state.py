"""The state that a Broker is shown in while its configuration or its status changes, as in the original."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import until

from .house import house

if TYPE_CHECKING:
    from .house import House

pytestmark = pytest.mark.anyio

QUIET = ("running", "idle", False, True)
CHANGED_OUT_OF_USE = ("running", "idle", True, False)
CHANGED_IN_USE = ("running", "processing_event", True, False)


async def state(here: House) -> tuple[str, str, bool, bool]:
    """Run status, sub-status, whether changed and whether loaded; both views say the same of the latter two."""
    run = (await here.rows("admin_query_broker_run_status", brokerId="1"))[0]
    record = (await here.rows("admin_query_broker_configure", brokerId="1"))[0]
    flags = (record["isConfChanged"], record["isConfLoaded"])
    assert (run["isConfChanged"], run["isConfLoaded"]) == tuple(str(flag).lower() for flag in flags)
    return run["runStatus"], run["subStatus"], *flags


async def test_an_offline_broker_that_is_changed_says_so_until_it_has_confirmed_it() -> None:
    async with house() as here:
        broker = await here.town.broker()
        await broker.heartbeat()
        assert await state(here) == QUIET
        assert await here.codes("admin_offline_broker_configure", brokerId="1") == [200]
        assert await state(here) == CHANGED_OUT_OF_USE
        await broker.heartbeat()
        assert await state(here) == QUIET
        assert await here.codes("admin_update_broker_configure", brokerId="1", numPartitions="4") == [200]
        assert await state(here) == CHANGED_OUT_OF_USE
        await broker.heartbeat()
        assert await state(here) == CHANGED_IN_USE, "it was given the change and has not confirmed it"
        await broker.heartbeat()
        assert await state(here) == QUIET
        assert await here.codes("admin_online_broker_configure", brokerId="1") == [200]
        assert (await state(here))[2:] == (True, False)
        await broker.heartbeat()
        assert await state(here) == QUIET


async def test_a_broker_in_use_that_is_changed_is_at_work_on_it() -> None:
    async with house() as here:
        broker = await here.town.broker()
        await broker.heartbeat()
        assert await here.codes("admin_update_broker_configure", brokerId="1", numPartitions="4") == [200]
        assert await state(here) == CHANGED_IN_USE
        await broker.heartbeat()
        await broker.heartbeat()
        assert await state(here) == QUIET


async def test_a_broker_that_waits_confirms_a_change_of_its_status_at_once() -> None:
    async with house() as here:
        broker = await here.town.broker()
        await broker.heartbeat()
        serving = asyncio.create_task(broker.serve())
        run = here.town.master.broker_room.runs[1]
        await until(lambda: here.town.master.broker_room.held)
        assert await here.codes("admin_offline_broker_configure", brokerId="1") == [200]
        await until(lambda: run.manage_status is here.town.master.catalogue.brokers[1].manage_status)
        assert await state(here) == QUIET
        serving.cancel()


async def test_of_a_broker_that_is_away_nothing_is_said() -> None:
    async with house() as here:
        assert await here.codes("admin_add_broker_configure", brokerIp="127.0.0.3", brokerId="1") == [200]
        for change in ("admin_online_broker_configure", "admin_offline_broker_configure"):
            assert await here.codes(change, brokerId="1") == [200]
            record = (await here.rows("admin_query_broker_configure", brokerId="1"))[0]
            assert (record["isConfChanged"], record["isConfLoaded"]) == (False, False)


async def test_the_port_of_a_brokers_pages_is_what_it_says_until_an_operator_says_another() -> None:
    async with house() as here:

        async def recorded() -> int:
            return int((await here.rows("admin_query_broker_configure", brokerId="1"))[0]["brokerWebPort"])

        def written() -> bool:
            return not here.town.master.broker_room.upkeep._tasks

        broker = await here.town.broker(web_port=18081)
        await until(written)
        assert await recorded() == 18081
        for bad in (None, 0, -1, 65_536):
            broker.web_port = bad
            await broker.register()
            await broker.heartbeat()
            await until(written)
            assert await recorded() == 18081
        broker.web_port = 18082
        await broker.register()
        await broker.heartbeat()
        await until(written)
        assert await recorded() == 18082
        assert await here.codes("admin_update_broker_configure", brokerId="1", brokerWebPort="9999") == [200]
        await broker.heartbeat()
        await until(written)
        assert await recorded() == 9999


HERE = {"brokerId": "1", "brokerIp": "127.0.0.9", "brokerPort": "8123"}


async def test_a_broker_that_entered_on_its_own_may_be_entered_by_an_operator_where_it_is() -> None:
    async with house() as here:
        broker = await here.town.broker()
        await here.topics("demo")
        assert await here.codes("admin_add_broker_configure", **HERE, numPartitions="3", regionId="2") == [200]
        record = (await here.rows("admin_query_broker_configure", withTopic="true"))[0]
        shown = {key: record[key] for key in ("manageStatus", "numPartitions", "regionId", "createUser")}
        assert shown == {"manageStatus": "online", "numPartitions": 3, "regionId": 2, "createUser": "me"}
        assert sorted(topic["topicName"] for topic in record["topicSet"]) == ["__offset_history__", "demo"]
        assert (await broker.register()).success, "it may come back to that record"
        again = await here.change("admin_add_broker_configure", **HERE)
        assert "the id 1 belongs to broker 1" in again["errMsg"], "an operator has entered it now"


async def test_a_broker_that_runs_is_not_entered_elsewhere_nor_as_a_draft() -> None:
    async with house(lost_connection_grace_s=0.05) as here:
        broker = await here.town.broker()
        before = here.town.master.catalogue.brokers[1]
        for other in ({"brokerPort": "9999"}, {"brokerIp": "127.0.0.8"}, {"brokerTLSPort": "9998"}):
            found = await here.change("admin_add_broker_configure", **{**HERE, **other})
            assert not found["result"]
            assert "broker 1 runs at 127.0.0.9:8123 (TLS port 8124), and the record would say" in found["errMsg"]
        assert await here.codes("admin_add_broker_configure", **HERE, manageStatus="draft") == [407]
        assert here.town.master.catalogue.brokers[1] == before
        await broker.close()
        await until(lambda: here.town.master.broker_room.runs.get(1) is None)
        assert await here.codes("admin_add_broker_configure", brokerId="1", brokerIp="127.0.0.8") == [200]
        assert here.town.master.catalogue.brokers[1].address.host == "127.0.0.8"


async def test_of_two_in_one_call_the_second_of_an_id_is_refused_also_where_the_broker_entered_on_its_own() -> None:
    async with house() as here:
        await here.town.broker()
        one = {"brokerId": 1, "brokerIp": "127.0.0.9", "brokerPort": 8123}
        twice = json.dumps([one, one])
        found = await here.change("admin_batch_add_broker_configure", brokerJsonSet=twice)
        assert "the id 1 belongs to broker 1" in found["errMsg"]
        assert here.town.master.catalogue.brokers[1].stamp.create_user == "autoRegister"
