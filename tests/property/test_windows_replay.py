"""What a store knows of producers after a kill is what it knew at the kill, whatever checkpoints were made before.

The invariant: windows, their places and the order in which they were used last come back exactly, although there are so
few that producers push each other out all the time, and although checkpoints come at any moment.
"""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from pytubemq.core.sequences import ProducerMark
from pytubemq.model.policy import RetentionPolicy
from pytubemq.storage import windows
from pytubemq.storage.store import StoreSettings
from pytubemq.testing.disk import FaultyDisk
from tests.unit.storage.helpers import NOW_MS, commit, open_store

_SMALL = StoreSettings(reserve_bytes=0, segment_bytes=400, journal_segment_bytes=900, checkpoint_bytes=1500)

_sends = st.lists(
    st.tuples(st.integers(0, 1), st.integers(1, 6), st.integers(0, 2), st.integers(0, 30), st.integers(1, 3)),
    min_size=1,
    max_size=6,
)
"""Of one block: partition, producer, epoch, first sequence, messages."""
_steps = st.lists(
    st.one_of(_sends, st.sampled_from(["apply", "checkpoint", "retain", "drop", "kill", "close"])),
    min_size=3,
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(_steps)
def test_after_a_kill_producers_are_known_exactly_as_before(steps: list[list[tuple[int, ...]] | str]) -> None:
    with patch.object(windows, "MAX_WINDOWS", 5), patch.object(windows, "MAX_WINDOW_PARTS", 24):
        disk = FaultyDisk()
        store = open_store(disk, _SMALL)
        clock_ms = NOW_MS
        for step in [*steps, "kill"]:
            clock_ms += 1
            if step == "apply":
                store.apply()
            elif step == "checkpoint":
                store.checkpoint()
            elif step == "retain":
                store.set_retention("demo", RetentionPolicy(0.001, None))
                store.retain(clock_ms + 10**9)
                store.set_retention("demo", None)
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
