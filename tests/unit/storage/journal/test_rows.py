"""Messages of one sender that were staged in a row: a pack from so many on, and the same messages either way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.core.sequences import AppendedSpan, ProducerMark
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.storage.journal.block_builder import BATCHED_FROM
from pytubemq.storage.journal.staging import AppendedRun
from pytubemq.testing.disk import FaultyDisk
from tests.unit.storage.helpers import commit, messages, open_store, payloads

if TYPE_CHECKING:
    from pytubemq.storage.store.store import BrokerStore

BODIES = [b"%d" % number for number in range(BATCHED_FROM * 3)]


def outcome_of(store: BrokerStore, count: int, mark: ProducerMark | None, *, start: int = 0) -> AppendedRun:
    staging = store.staging()
    staging.append_run("demo", 0, BODIES[start : start + count], 7, 3, producer=mark)
    [outcome] = commit(store, staging)
    assert isinstance(outcome, AppendedRun)
    return outcome


@pytest.mark.parametrize("count", [1, BATCHED_FROM - 1, BATCHED_FROM, BATCHED_FROM * 3])
@pytest.mark.parametrize("mark", [None, ProducerMark(5, 1, 100)])
def test_a_row_is_read_as_the_messages_it_was_made_of(count: int, mark: ProducerMark | None) -> None:
    store = open_store(FaultyDisk())
    outcome = outcome_of(store, count, mark)
    found = messages(store)
    assert [message.payload for message in found] == BODIES[:count]
    assert [message.offset for message in found] == [at * OFFSET_UNIT for at in range(count)]
    assert {message.flag for message in found} == {7}
    assert outcome.spans == (AppendedSpan(count, 200, 0, found[0].message_id),)
    assert store.read("demo", 0, 0, max_bytes=1 << 20, max_messages=100).has_batches == (count >= BATCHED_FROM)
    assert payloads(store) == BODIES[:count]


def test_of_a_row_that_comes_again_only_what_is_new_is_stored() -> None:
    store = open_store(FaultyDisk())
    outcome_of(store, BATCHED_FROM, ProducerMark(5, 1, 0))
    outcome = outcome_of(store, BATCHED_FROM * 2, ProducerMark(5, 1, 2), start=2)
    repeated, new = outcome.spans
    assert (repeated.messages, repeated.repeated, repeated.first_offset) == (BATCHED_FROM - 2, True, 2 * OFFSET_UNIT)
    assert (new.messages, new.repeated, new.first_offset) == (BATCHED_FROM + 2, False, BATCHED_FROM * OFFSET_UNIT)
    assert payloads(store) == BODIES[: BATCHED_FROM * 2 + 2]


def test_a_row_is_selected_by_its_filter_code() -> None:
    store = open_store(FaultyDisk())
    outcome_of(store, BATCHED_FROM, None)
    for code, count in ((3, BATCHED_FROM), (4, 0)):
        found = store.read("demo", 0, 0, codes=frozenset({code}), max_bytes=1 << 20, max_messages=100)
        assert found.count == count
