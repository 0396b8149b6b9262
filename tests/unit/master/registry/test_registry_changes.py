"""Changes of many records: what is decided one by one is stored at once, or not at all."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import pytest

from pytubemq.errors import DiskFullError, NotFoundError
from pytubemq.master.catalogue.catalogue import Catalogue
from pytubemq.master.registry import consumes as consumes_room
from pytubemq.master.registry.audit import Audit
from pytubemq.master.registry.consumes import ConsumeChange, ConsumeRegistry
from pytubemq.master.registry.groups import GroupChange, GroupRegistry
from pytubemq.model.ids import Address
from pytubemq.model.records import (
    NO_RULES,
    BrokerRecord,
    ClusterRecord,
    ConsumeRecord,
    DeployRecord,
    GroupRecord,
    TopicRecord,
)
from pytubemq.net.clock import SystemClock
from pytubemq.storage.metastore.memory import MemoryMetaStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pytubemq.model.records import Record

pytestmark = pytest.mark.anyio

BY = Audit("me", 5_000)
RULES = '[{"type":1,"rule":[{"zeroCnt":3,"freqInMs":300}]}]'


class Store(MemoryMetaStore):
    """Fails when it is told to."""

    full = False

    def apply(self, puts: Sequence[Record], deletes: Sequence[Record]) -> None:
        if self.full:
            raise DiskFullError("no room")
        super().apply(puts, deletes)


@pytest.fixture
async def store() -> Store:
    return Store()


@pytest.fixture
async def catalogue(store: Store) -> AsyncIterator[Catalogue]:
    made = Catalogue(SystemClock())
    await made.open(lambda: store)
    await made.apply([BrokerRecord(1, Address("127.0.0.1", 1)), *(TopicRecord(name) for name in "tu")])
    await made.apply([DeployRecord(name, 1) for name in "tu"])
    yield made
    await made.close()


def wanted(group: str, topic: str = "t", **values: object) -> ConsumeChange:
    return ConsumeChange(group=group, topic=topic, by=BY, **values)  # type: ignore[arg-type]


async def test_a_new_record_brings_its_groups_record_along_with_the_clusters_priority(catalogue: Catalogue) -> None:
    await catalogue.apply([ClusterRecord(qry_priority_id=202)])
    registry = ConsumeRegistry(catalogue)
    found = await registry.add([wanted("g", "t"), wanted("g", "u", consume_enable=False), wanted("g", "t")])
    assert [(one.key, one.code) for one in found] == [(("g", "t"), 200), (("g", "u"), 200), (("g", "t"), 402)]
    assert catalogue.groups["g"] == GroupRecord("g", qry_priority_id=202, stamp=catalogue.groups["g"].stamp)
    stamp = catalogue.consumes["g", "t"].stamp
    assert (stamp.create_user, stamp.create_ms, stamp.modify_user, stamp.data_version_id) == ("me", 5_000, "me", -2)
    assert stamp.serial_id > 0


async def test_a_change_keeps_who_made_the_record_and_says_when_there_is_nothing_to_do(catalogue: Catalogue) -> None:
    registry = ConsumeRegistry(catalogue)
    await registry.add([wanted("g")])
    before = catalogue.consumes["g", "t"]
    later = ConsumeChange(group="g", topic="t", by=Audit("you", 9_000, data_version_id=3), filter_enable=True)
    assert [one.code for one in await registry.update([later, later])] == [200, 403]
    stamp = catalogue.consumes["g", "t"].stamp
    assert (stamp.create_user, stamp.modify_user, stamp.modify_ms, stamp.data_version_id) == ("me", "you", 9_000, 3)
    assert stamp.serial_id > before.stamp.serial_id
    same = catalogue.consumes["g", "t"]
    assert [one.code for one in await registry.put([later])] == [200]
    assert catalogue.consumes["g", "t"] is same


async def test_a_topic_that_lies_nowhere_spoils_the_whole_call(catalogue: Catalogue) -> None:
    with pytest.raises(NotFoundError, match="no Broker has topic x"):
        await ConsumeRegistry(catalogue).add([wanted("g"), wanted("g", "x")])
    assert catalogue.consumes == {}


async def test_add_and_delete_in_one_call_and_records_that_are_not_there(catalogue: Catalogue) -> None:
    registry = ConsumeRegistry(catalogue)
    await registry.add([wanted("g"), wanted("h")])
    assert [one.code for one in await registry.delete([wanted("g"), wanted("g"), wanted("nobody")])] == [200] * 3
    assert [record.group for record in registry.find()] == ["h"]
    assert [one.code for one in await registry.flip([wanted("g", consume_enable=False)])] == [200]
    assert [record.group for record in registry.find()] == ["h"]


async def test_what_the_store_refuses_is_told_and_nothing_has_changed(catalogue: Catalogue, store: Store) -> None:
    registry = ConsumeRegistry(catalogue)
    await registry.add([wanted("g")])
    store.full = True
    found = await registry.add([wanted("g"), wanted("h")])
    assert [one.code for one in found] == [402, 501]
    assert [one.code for one in await registry.delete([wanted("g")])] == [501]
    assert list(catalogue.consumes) == [("g", "t")]
    assert "h" not in catalogue.groups
    store.full = False
    assert [one.code for one in await registry.add([wanted("h")])] == [200]


async def test_changes_at_the_same_time_see_each_other(catalogue: Catalogue) -> None:
    registry = ConsumeRegistry(catalogue)
    both = await asyncio.gather(*(registry.add([wanted("g")]) for _ in range(5)))
    assert sorted(one.code for found in both for one in found) == [200, 402, 402, 402, 402]


async def test_records_are_bounded(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumes_room, "MAX_CONSUME_RECORDS", 2)
    registry = ConsumeRegistry(catalogue)
    assert [one.code for one in await registry.add([wanted("a"), wanted("b"), wanted("c")])] == [200, 200, 406]
    assert [one.code for one in await registry.update([wanted("a", filter_enable=True)])] == [200]
    assert [one.code for one in await registry.delete([wanted("a")])] == [200]
    assert [one.code for one in await registry.put([wanted("c"), wanted("d")])] == [200, 406]


async def test_a_groups_record_goes_only_after_its_records_of_consuming(catalogue: Catalogue) -> None:
    groups, consuming = GroupRegistry(catalogue), ConsumeRegistry(catalogue)
    await consuming.add([wanted("g")])
    change = GroupChange(group="g", by=BY)
    assert [one.code for one in await groups.delete([change])] == [405]
    await consuming.delete([wanted("g")])
    assert [one.code for one in await groups.delete([change])] == [200]
    assert catalogue.groups == {}


async def test_groups_are_added_set_and_lose_their_rules(catalogue: Catalogue) -> None:
    groups = GroupRegistry(catalogue)
    change = GroupChange(group="g", by=BY, flow_ctrl_enable=True)
    assert [one.code for one in await groups.update([change])] == [401]
    assert [one.code for one in await groups.remove_rules([change])] == [200]
    assert catalogue.groups == {}
    assert [one.code for one in await groups.put([change, change])] == [200, 403]
    assert [one.code for one in await groups.update([change])] == [403]
    assert [one.code for one in await groups.remove_rules([change])] == [200]
    assert [one.code for one in await groups.add([change])] == [402]


async def test_removed_rules_leave_the_priority_at_its_default_and_rules_that_are_off_alone(
    catalogue: Catalogue,
) -> None:
    groups = GroupRegistry(catalogue)
    on = GroupChange(group="on", by=BY, flow_ctrl_enable=True, flow_ctrl_info=RULES, qry_priority_id=203)
    off = GroupChange(group="off", by=BY, flow_ctrl_info=RULES, qry_priority_id=202)
    await groups.add([on, off])
    for _ in range(2):
        named = [GroupChange(group=name, by=BY) for name in ("on", "off", "none")]
        assert [one.code for one in await groups.remove_rules(named)] == [200, 200, 200]
        found = {
            name: (record.flow_ctrl_enable, record.flow_ctrl_info, record.qry_priority_id)
            for name, record in catalogue.groups.items()
        }
        assert found == {"on": (False, NO_RULES, 301), "off": (False, RULES, 202)}


async def test_a_group_that_an_older_method_makes_has_the_built_in_priority(catalogue: Catalogue) -> None:
    await catalogue.apply([replace(catalogue.cluster, qry_priority_id=203)])
    groups = GroupRegistry(catalogue)
    await groups.put([GroupChange(group="older", by=BY, alwd_broker_client_rate=3)])
    await groups.add([GroupChange(group="newer", by=BY)])
    assert {name: record.qry_priority_id for name, record in catalogue.groups.items()} == {"older": 301, "newer": 203}


class NotSearched(dict[tuple[str, str], ConsumeRecord]):
    """Records of which one may be looked up, and that nobody goes through."""

    def _searched(self, *_: object) -> NoReturn:
        raise AssertionError("all records were gone through for one topic")

    __iter__ = keys = items = values = _searched


async def test_the_records_of_a_topic_are_found_without_going_through_all(catalogue: Catalogue) -> None:
    registry = ConsumeRegistry(catalogue)
    await registry.add([wanted("g2", "t"), wanted("g1", "t"), wanted("g1", "u")])
    assert [(one.group, one.topic) for one in registry.find()] == [("g1", "t"), ("g1", "u"), ("g2", "t")]
    catalogue.consumes = NotSearched(catalogue.consumes)
    assert [one.group for one in registry.find(topics=("t", "nosuch"))] == ["g1", "g2"]
    assert [(one.group, one.topic) for one in registry.find(("g1",), ("u", "t"))] == [("g1", "t"), ("g1", "u")]
