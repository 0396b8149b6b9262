"""The audit trail: what a change leaves in it, and how much of it is kept."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import DiskFullError
from pytubemq.master.catalogue.audit_trail import AuditTrail, ChangeOrigin, NotedCall, as_text, change_of
from pytubemq.master.catalogue.catalogue import Catalogue
from pytubemq.model.limits import MAX_AUDIT_CHARS
from pytubemq.model.records import Stamp, TopicRecord, UserRecord
from pytubemq.storage.metastore.memory import MemoryMetaStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pytubemq.model.records import Record

pytestmark = pytest.mark.anyio

DAY_MS = 86_400_000
ANN = Stamp("ann", 1, "ann", 1)


class Clock:
    def __init__(self) -> None:
        self.ms = 100 * DAY_MS

    def now_s(self) -> float:
        return self.ms / 1000

    def wall_ms(self) -> int:
        return self.ms


class FullStore(MemoryMetaStore):
    def apply(self, puts: Sequence[Record], deletes: Sequence[Record]) -> None:
        raise DiskFullError("no space left")


@asynccontextmanager
async def catalogue(clock: Clock, store: MemoryMetaStore) -> AsyncIterator[Catalogue]:
    made = Catalogue(clock, audit_days=10)
    await made.open(lambda: store)
    try:
        yield made
    finally:
        await made.close()


async def test_a_change_leaves_who_what_and_from_where_with_its_fields_before_and_after() -> None:
    store, clock = MemoryMetaStore(), Clock()
    async with catalogue(clock, store) as records:
        with change_of(ChangeOrigin("bob", "10.0.0.7", "POST /topics")):
            await records.apply([TopicRecord("orders", max_message_bytes=1000, stamp=ANN)])
        with change_of(ChangeOrigin("", "10.0.0.8", "PATCH /topics/{name}")) as _:
            await records.apply([TopicRecord("orders", max_message_bytes=2000, stamp=ANN)])
        with change_of(ChangeOrigin("bob", "10.0.0.7", "DELETE /topics/{name}")):
            await records.apply(deletes=[records.topics["orders"]])
        deleted, altered, created = records.audit.find()
    assert (created.stamp.create_user, created.host, created.action) == ("bob", "10.0.0.7", "POST /topics")
    assert (created.target, created.outcome, created.before) == ("topic orders", "done", "{}")
    assert json.loads(created.after)["topic orders"]["max_message_bytes"] == 1000
    assert altered.stamp.create_user == "ann"  # nobody was identified: the name that the caller gave
    assert json.loads(altered.before) == {"topic orders": {"max_message_bytes": 1000}}
    assert json.loads(altered.after) == {"topic orders": {"max_message_bytes": 2000}}
    assert json.loads(deleted.before)["topic orders"]["max_message_bytes"] == 2000
    assert deleted.after == "{}"
    assert store.load().audit == [created, altered, deleted]
    async with catalogue(clock, store) as again:
        assert again.audit.find() == [deleted, altered, created]
        with change_of(ChangeOrigin("bob", "10.0.0.7", "POST /topics")):
            await again.apply([TopicRecord("more", stamp=ANN)])
        assert again.audit.find()[0].entry_id == deleted.entry_id + 1


async def test_no_entry_has_a_secret() -> None:
    async with catalogue(Clock(), MemoryMetaStore()) as records:
        with change_of(ChangeOrigin("bob", "::1", "POST /users")):
            await records.apply([UserRecord("eve", sealed_secret="1:hidden", password_hash="scrypt:hidden", stamp=ANN)])
            await records.apply([UserRecord("eve", sealed_secret="1:hidden2", password_hash="scrypt:x", stamp=ANN)])
        for entry in records.audit.find():
            assert "hidden" not in entry.before + entry.after
            assert json.loads(entry.after)["user eve"]["sealed_secret"] == "********"


async def test_this_servers_own_changes_leave_none() -> None:
    async with catalogue(Clock(), MemoryMetaStore()) as records:
        await records.apply([TopicRecord("orders", stamp=ANN)])
        assert len(records.audit) == 0


async def test_a_change_that_is_not_stored_leaves_none() -> None:
    origin = ChangeOrigin("bob", "::1", "POST /topics")
    async with catalogue(Clock(), FullStore()) as records:
        with change_of(origin), pytest.raises(DiskFullError):
            await records.apply([TopicRecord("orders", stamp=ANN)])
        assert len(records.audit) == 0
    assert not origin.noted


async def test_a_large_change_has_an_entry_for_each_twenty_records() -> None:
    names = [f"topic_{number}" for number in range(41)]
    async with catalogue(Clock(), MemoryMetaStore()) as records:
        with change_of(ChangeOrigin("bob", "::1", "POST /topics:batch")):
            await records.apply([TopicRecord(name, stamp=ANN) for name in names])
        assert len(records.audit) == 3
        for name in names:
            (entry,) = records.audit.find(target=name)
            assert f"topic {name}" in entry.target.split(", ")


async def test_filters_by_user_target_time_and_number() -> None:
    clock = Clock()
    async with catalogue(clock, MemoryMetaStore()) as records:
        for user, topic in (("bob", "orders"), ("eve", "orders"), ("bob", "payments")):
            clock.ms += 1000
            with change_of(ChangeOrigin(user, "::1", "POST /topics")):
                await records.apply([TopicRecord(topic, stamp=ANN)])

        def shown(**terms: object) -> list[tuple[str, str]]:
            return [(one.stamp.create_user, one.target) for one in records.audit.find(**terms)]  # type: ignore[arg-type]

        assert shown(user="bob") == [("bob", "topic payments"), ("bob", "topic orders")]
        assert (
            shown(target="orders") == shown(target="topic orders") == [("eve", "topic orders"), ("bob", "topic orders")]
        )
        assert shown(target="order") == []
        assert shown(since_ms=clock.ms) == [("bob", "topic payments")]
        assert shown(limit=1) == [("bob", "topic payments")]


async def test_entries_go_by_age_and_by_number() -> None:
    clock, store = Clock(), MemoryMetaStore()
    async with catalogue(clock, store) as records:
        origin = ChangeOrigin("bob", "::1", "POST /topics")
        with change_of(origin):
            await records.apply([TopicRecord("a", stamp=ANN)])
            clock.ms += 11 * DAY_MS
            assert records.audit.find() == []  # too old to be shown, though it is there until the next change
            await records.apply([TopicRecord("b", stamp=ANN)])
        assert [one.target for one in store.load().audit] == ["topic b"]
    trail = AuditTrail(clock, most=3)
    for number in range(5):
        entry = trail.entry(NotedCall(user="bob", host="", action="", target=str(number)))
        for old in trail.to_forget(1):
            trail.remove(old)
        trail.enter(entry)
    assert [one.target for one in trail.find()] == ["4", "3", "2"]


def test_a_long_state_is_cut_and_says_so() -> None:
    text = as_text({f"topic {number}": {"text": "x" * 100} for number in range(100)})
    assert len(text) <= MAX_AUDIT_CHARS
    assert json.loads(text)["..."].endswith(" more")
    assert len(as_text({"one": "x" * 10_000})) <= MAX_AUDIT_CHARS


def test_refused_sign_ins_displace_no_changes() -> None:
    trail = AuditTrail(Clock(), most=100)
    for number in range(50):
        trail.enter(trail.entry(NotedCall(user="bob", host="", action="", target=f"topic {number}")))
    for number in range(500):
        entry = trail.entry(NotedCall(user="", host="", action="sign in", target=f"user {number}", outcome="refused"))
        for old in trail.to_forget(1, refusals=1):
            trail.remove(old)
        trail.enter(entry)
    assert len(trail.find(user="bob")) == 50
    assert [one.target for one in trail.find(user="", limit=2)] == ["user 499", "user 498"]
    assert len(trail.find(user="")) == 10
