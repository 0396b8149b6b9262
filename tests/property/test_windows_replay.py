"""What a store knows of producers after a kill is what it knew at the kill, whatever checkpoints were made before.

The invariant: windows, their places and the order in which they were used last come back exactly, although there are so
few that producers push each other out all the time, and although checkpoints come at any moment.
"""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytubemq.core.sequences import ProducerMark
from pytubemq.model.policy import RetentionPolicy
from pytubemq.storage.journal import windows
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.testing.disk import FaultyDisk
from tests.support.properties import examples
from tests.unit.storage.helpers import NOW_MS, commit, open_store, send

_SMALL = StoreSettings(reserve_bytes=0, segment_bytes=400, journal_segment_bytes=900, checkpoint_bytes=1500)

_OLD = 20
"""Segments of a topic that retention may drop."""
_sends = st.lists(
    st.tuples(st.integers(0, 1), st.integers(1, 2), st.integers(0, 1), st.integers(0, 9), st.integers(1, 3)),
    min_size=1,
    max_size=2,
)
"""Of one block: partition, producer, epoch, first sequence, messages."""
_steps = st.lists(
    st.one_of(
        _sends, _sends, _sends, st.sampled_from(["apply", "checkpoint", "retain", "retain", "drop", "kill", "close"])
    ),
    min_size=10,
    max_size=50,
)


@settings(max_examples=examples(200))
@given(_steps, st.integers(2, 3))
@example(
    # The first producer stays known all the time; replayed on top of the newest windows, the second one pushes it out.
    [[(0, 1, 0, 0, 2)], "checkpoint", [(0, 2, 0, 0, 1)], [(0, 1, 0, 5, 1)], [(1, 1, 0, 0, 1)], "retain"],
    2,
)
def test_after_a_kill_producers_are_known_exactly_as_before(
    steps: list[list[tuple[int, ...]] | str], most: int
) -> None:
    with patch.object(windows, "MAX_WINDOWS", most), patch.object(windows, "MAX_WINDOW_PARTS", 18):
        disk = FaultyDisk()
        store = open_store(disk, _SMALL)
        store.ensure_partition("old", 0)
        for _ in range(_OLD):
            send(store, b"x" * 300, topic="old")
            store.checkpoint()
        clock_ms, kept = NOW_MS, _OLD
        for step in [*steps, "kill"]:
            clock_ms += 1
            if step == "apply":
                store.apply()
            elif step == "checkpoint":
                store.checkpoint()
            elif step == "retain":
                # Its checkpoint knows the newest windows, and no more of the journal than what was applied.
                kept = max(kept - 1, 1)
                store.set_retention("old", RetentionPolicy(None, kept * 300))
                store.retain(clock_ms)
            elif step == "drop":
                store.drop("demo")
                for partition_id in range(2):
                    store.ensure_partition("demo", partition_id)
            elif isinstance(step, str):
                known, positions = list(store.windows().items()), store.positions()
                store.close() if step == "close" else disk.kill()
                store = open_store(disk, _SMALL)
                assert list(store.windows().items()) == known
                assert store.positions() == positions
            else:
                staging = store.staging()
                for partition_id, producer_id, epoch, sequence, count in step:
                    for at in range(count):
                        mark = ProducerMark(producer_id, epoch, sequence + at)
                        staging.append("demo", partition_id, b"x" * 50, 0, -1, producer=mark)
                    staging.confirm("g", "demo", partition_id, sequence)
                commit(store, staging, now_ms=clock_ms)
