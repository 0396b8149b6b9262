"""The metadata of a running Master: exported, compared and applied."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pytubemq.errors import AlreadyExistsError, BadRequestError, RefusedError
from pytubemq.master.declaration.merging import MergeOptions
from pytubemq.master.declaration.reading import read_declaration
from pytubemq.master.service import MasterService, MasterSettings
from pytubemq.model.ids import Address
from pytubemq.model.records import TopicStatus
from pytubemq.model.topic import HISTORY_TOPIC

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytubemq.master.declaration.declaration import Declaration
    from pytubemq.master.declaration.metadata_views import MetadataDiff

pytestmark = pytest.mark.anyio

WHOLE: dict[str, Any] = {
    "format": 1,
    "cluster": {"retention": "72h"},
    "brokers": {"1": {"address": "127.0.0.1:8123"}, "2": {"address": "127.0.0.2:8123", "manage_status": "only-read"}},
    "topics": {
        "orders": {"brokers": [1, 2], "partitions": 2, "on": {"2": {"partitions": 3}}},
        "audit": {"retention": "forever"},
    },
    "groups": {"g": {"qry_priority_id": 203, "topics": {"orders": {"consume_enable": False}}}},
    "users": {"ann": {"permissions": ["admin cluster"]}, "bob": {"permissions": ["produce topic orders*"]}},
}
PRUNE = MergeOptions(prune=True)


@asynccontextmanager
async def master() -> AsyncIterator[MasterService]:
    made = MasterService(MasterSettings(listen=Address("127.0.0.1", 0)))
    await made.start()
    yield made
    await made.close()


def declared(**sections: Any) -> Declaration:
    return read_declaration(sections)


def said(found: MetadataDiff) -> list[str]:
    return [f"{change.action} {change.kind} {change.name}" for change in found.changes]


async def test_a_whole_cluster_is_made_in_one_step_and_applying_it_again_changes_nothing() -> None:
    async with master() as m:
        metadata = m.declared_metadata
        preview = await metadata.diff(declared(**WHOLE))
        assert not m.catalogue.topics
        done = await metadata.apply(declared(**WHOLE), expect=preview.fingerprint)
        assert done.applied
        assert done.changes == preview.changes
        assert {(topic, broker): m.catalogue.props(topic, broker).num_partitions
                for topic, broker in m.catalogue.deploys if topic != HISTORY_TOPIC} == {
            ("orders", 1): 2, ("orders", 2): 3, ("audit", 1): 1, ("audit", 2): 1,
        }  # fmt: skip
        assert m.catalogue.props("audit", 1).delete_policy == "keep"
        assert m.catalogue.props("orders", 1).delete_policy == "delete,72h"
        assert m.catalogue.disabled_topics("g") == {"orders"}
        assert (HISTORY_TOPIC, 1) in m.catalogue.deploys  # as on every Broker that an operator adds
        assert not m.registry.users.find("bob").has_secret
        changes = m.catalogue.changes
        assert (await metadata.apply(declared(**WHOLE))).changes == []
        assert m.catalogue.changes == changes
        exported = read_declaration(msgspec.to_builtins(await metadata.export()))
        assert (await metadata.diff(exported, PRUNE)).changes == []


async def test_what_the_file_does_not_name_goes_only_if_it_is_pruned() -> None:
    async with master() as m:
        await m.declared_metadata.apply(declared(**WHOLE))
        less = declared(topics={"orders": {}}, groups={}, users={"ann": WHOLE["users"]["ann"]}, brokers={"1": {}})
        assert said(await m.declared_metadata.diff(less)) == []
        pruned = await m.declared_metadata.apply(less, PRUNE)
        assert said(pruned) == [
            "remove topic audit", "remove group g", "remove user bob",
        ]  # fmt: skip
        assert pruned.changes[0].warning == "deletes all its messages"
        assert pruned.notes == ["broker 2 stays: a Broker is not removed by pruning"]
        assert {place.topic_status for place in m.catalogue.deployed("audit").values()} == {TopicStatus.SOFT_REMOVED}
        assert "audit" in m.catalogue.topics  # its record goes with its last Broker
        assert m.catalogue.consumes == {}
        assert m.catalogue.cluster.props.delete_policy == "delete,72h"  # a section that is not in the file
        assert said(await m.declared_metadata.diff(less, PRUNE)) == []


async def test_an_import_changes_nothing_that_exists() -> None:
    async with master() as m:
        await m.declared_metadata.apply(declared(**WHOLE))
        more = declared(
            cluster={"retention": "1h"},
            topics={"orders": {"retention": "1h"}, "new": {}},
            groups={"g": {"qry_priority_id": 101, "topics": {"new": {"consume_enable": False}}}},
        )
        found = await m.declared_metadata.apply(more, MergeOptions(only_new=True))
        assert said(found) == ["create topic new", "change group g"]
        assert m.catalogue.groups["g"].qry_priority_id == 203


async def test_other_changes_than_were_agreed_to_are_refused() -> None:
    async with master() as m:
        await m.declared_metadata.apply(declared(brokers=WHOLE["brokers"]))
        seen = await m.declared_metadata.diff(declared(topics={"a": {}}))
        await m.declared_metadata.apply(declared(topics={"a": {}}))
        with pytest.raises(AlreadyExistsError, match="changed since the preview"):
            await m.declared_metadata.apply(declared(topics={"a": {"partitions": 9}}), expect=seen.fingerprint)
        assert m.catalogue.props("a", 1).num_partitions == 1


async def test_fewer_messages_kept_is_said() -> None:
    async with master() as m:
        await m.declared_metadata.apply(declared(**WHOLE))
        (change,) = (await m.declared_metadata.diff(declared(topics={"audit": {"retention": "1h"}}))).changes
        assert change.warning == "keeps fewer messages than now: older ones are deleted"
        (change,) = (await m.declared_metadata.diff(declared(cluster={"retention": "1h"}))).changes
        assert change.warning == "keeps fewer messages of 1 topics: older ones are deleted"


async def test_nobody_is_locked_out() -> None:
    async with master() as m:
        await m.declared_metadata.apply(declared(**WHOLE))
        with pytest.raises(RefusedError, match="user ann is the last one"):
            await m.declared_metadata.apply(declared(users={"bob": {}}), PRUNE)
        with pytest.raises(RefusedError, match="user ann is the last one"):
            await m.declared_metadata.apply(declared(users={"ann": {"enabled": False}}))
        assert m.registry.users.find("ann").enabled


async def test_a_user_that_has_no_secret_yet_does_not_replace_the_last_administrator() -> None:
    async with master() as m:
        await m.declared_metadata.apply(declared(**WHOLE))
        new = {"eve": {"permissions": ["admin cluster"]}}
        with pytest.raises(RefusedError, match="user ann is the last one"):
            await m.declared_metadata.apply(declared(users=new), PRUNE)
        await m.declared_metadata.apply(declared(users=new))
        await m.declared_metadata.apply(declared(users=new), PRUNE)


@pytest.mark.parametrize(
    ("sections", "message", "hint"),
    [
        ({"topcis": {}}, "topcis: unknown key", "did you mean topics?"),
        ({"topics": {"orders": {"retension": "1h"}}}, "topics.orders.retension: unknown key", "mean retention?"),
        ({"topics": {"orders": {"partitions": "4"}}}, "topics.orders.partitions: Expected `int`, got `str`", None),
        ({"topics": {"orders": 4}}, "topics.orders: takes keys with values, not int", None),
        ({"topics": {"orders": {"retention": "5"}}}, "topics.orders.retention: not a retention: '5'", "write a unit"),
        ({"topics": {"orders": {"on": {"2": {"partitions": 1}}}}}, "topics.orders.partitions: is 3 on", "grow"),
        ({"topics": {"orders": {"brokers": [9]}}}, "topics.orders.brokers: broker 9 is not known", "add it"),
        ({"topics": {"__offset_history__": {}}}, "topics.__offset_history__: is the system's own topic", "leave it"),
        ({"topics": {"a b": {}}}, "topics: not a topic name: 'a b'", "use a letter"),
        ({"brokers": {"3": {}}}, "brokers.3: a new Broker needs the key address", "10.0.0.7"),
        ({"brokers": {"1": {"address": "127.0.0.9:1"}}}, "brokers.1.address: broker 1 is at 127.0.0.1:8123", "remove"),
        ({"brokers": {"3": {"address": "127.0.0.1:8123"}}}, "brokers.3.address: 127.0.0.1:8123 belongs to", "another"),
        ({"brokers": {"1": {"manage_status": "draft"}}}, "brokers.1.manage_status: is online", None),
        ({"brokers": {"one": {}}}, "brokers.one: 'one' is not the id of a Broker", "number"),
        ({"groups": {"g": {"topics": {"nope": {}}}}}, "groups.g.topics.nope: topic nope is not known", "add it"),
        ({"groups": {"g": {"qry_priority_id": 5}}}, "groups.g.qry_priority_id: is 5", "digit"),
        ({"groups": {"g": {"flow_ctrl_info": "{"}}}, "groups.g.flow_ctrl_info:", None),
        ({"users": {"x": {"permissions": ["fly topic a"]}}}, "users.x.permissions: 'fly' is no operation", "write one"),
        ({"format": 2}, "format: is 2", "this version reads format 1"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_named_with_its_path(sections: dict[str, Any], message: str, hint: str | None) -> None:
    async with master() as m:
        await m.declared_metadata.apply(declared(**WHOLE))
        changes = m.catalogue.changes
        with pytest.raises(BadRequestError) as refused:
            await m.declared_metadata.apply(declared(**sections))
        assert refused.value.message.startswith(message)
        assert hint is None or hint in (refused.value.hint or "")
        assert m.catalogue.changes == changes
