"""The state directory, the lock on it, the ledger in it."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ConfigError
from pytubemq.pipelines.events import RunStatus
from pytubemq.pipelines.run import lock as locks
from pytubemq.pipelines.run.lock import RunLock
from pytubemq.pipelines.spark_faults import PipelineError
from pytubemq.pipelines.state import directory as states
from pytubemq.pipelines.state.directory import StateDirectory
from pytubemq.pipelines.state.files import RUN, STALE_S
from pytubemq.pipelines.state.ledger import KEPT, Ledger, add_totals

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.errors import TubeError


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(str(tmp_path / "state"))


def test_a_file_of_the_state_is_read_back_and_nothing_else_lies_beside_it(
    state: StateDirectory, tmp_path: Path
) -> None:
    state.write("a/b.json", {"x": 1})
    state.write("a/b.json", {"x": 2})
    assert state.read("a/b.json") == {"x": 2}
    assert list(state.names("a")) == ["b.json"]
    assert state.read("a/c.json") is None
    state.delete("a/b.json")
    assert not state.exists("a/b.json")


def test_a_file_that_is_no_json_counts_as_not_there(state: StateDirectory, tmp_path: Path) -> None:
    (tmp_path / "state" / "x.json").write_text('{"cut')
    assert state.read("x.json") is None


def test_a_uri_is_a_state_directory_too(tmp_path: Path) -> None:
    state = StateDirectory(f"file://{tmp_path}/state")
    state.write("x.json", {"x": 1})
    assert state.read("x.json") == {"x": 1}
    state.add_line("lines", {"x": 1})
    state.add_line("lines", {"x": 2})
    assert state.read_bytes("lines") == b'{"x": 1}\n{"x": 2}\n'
    assert state.of_spark("checkpoint") == f"file://{tmp_path}/state/checkpoint"


def test_lines_keep_to_their_bound_and_the_newest_stay(state: StateDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "MAX_PROGRESS_BYTES", 200)
    for number in range(100):
        state.add_line("lines", {"n": number})
    text = state.read_bytes("lines") or b""
    assert len(text) <= 200
    assert [json.loads(line)["n"] for line in text.splitlines()][-1] == 99


def test_a_place_that_cannot_be_made_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be created"):
        StateDirectory(str(tmp_path / "file" / "state"))


@pytest.mark.process
def test_a_second_run_of_the_same_state_is_refused_and_told_who_has_it(state: StateDirectory, tmp_path: Path) -> None:
    code = (
        "import sys; from pytubemq.pipelines.run.lock import RunLock;"
        "from pytubemq.pipelines.state.directory import StateDirectory;"
        f"RunLock(StateDirectory({state.location!r}), 'p').take(); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match=f"process {other.pid} on "):
            RunLock(state, "p").take()
        other.kill()
        other.wait()
    lock = RunLock(state, "p")
    lock.take()
    lock.release(RunStatus.FINISHED)
    assert (state.read(RUN) or {})["status"] == "finished"


def test_a_run_of_another_machine_counts_as_dead_when_its_heartbeat_is_old(state: StateDirectory) -> None:
    other = {"pid": 7, "host": "elsewhere", "status": "running", "heartbeat": time.time()}
    state.write(RUN, other)
    with pytest.raises(ConfigError, match="process 7 on elsewhere"):
        RunLock(state, "p").take()
    state.write(RUN, {**other, "heartbeat": time.time() - STALE_S - 1})
    lock = RunLock(state, "p")
    lock.take()
    lock.release(RunStatus.STOPPED)


@pytest.fixture
def remote(tmp_path: Path) -> StateDirectory:
    """A state without the file lock of one machine."""
    return StateDirectory(f"file://{tmp_path}/remote")


def test_of_two_runs_that_take_a_remote_state_at_once_one_has_it(
    remote: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = RunLock(remote, "p"), RunLock(remote, "p")
    monkeypatch.setattr(time, "sleep", lambda pause_s: RunLock._write_facts(second))  # it had looked before, too
    with pytest.raises(ConfigError, match="runs already"):
        first.take()
    assert (remote.read(RUN) or {})["run_id"] == second.run_id


def test_a_run_whose_state_was_taken_over_ends_and_leaves_it_to_the_other(
    remote: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "HEARTBEAT_S", 0.02)
    monkeypatch.setattr(locks, "LOOK_AGAIN_S", 0.0)
    lost: queue.SimpleQueue[TubeError] = queue.SimpleQueue()
    lock = RunLock(remote, "p")
    lock.take(on_lost=lost.put)
    lock.check()
    RunLock(remote, "p")._write_facts()
    assert "has taken over" in lost.get(timeout=30).message
    with pytest.raises(PipelineError, match="has taken over"):
        lock.check()
    before = remote.read(RUN)
    lock.note(java=True)
    lock.release(RunStatus.FAILED)
    assert remote.read(RUN) == before


def test_a_run_that_stood_still_looks_before_its_next_batch(
    remote: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "LOOK_AGAIN_S", 0.0)
    lock = RunLock(remote, "p")
    lock.take()
    RunLock(remote, "p")._write_facts()
    lock.check()  # the last look was a moment ago
    now_s = time.time() + 60
    monkeypatch.setattr(time, "time", lambda: now_s)
    with pytest.raises(PipelineError, match="has taken over"):
        lock.check()
    lock.release(RunStatus.FAILED)


def test_a_heartbeat_that_fails_is_tried_again(state: StateDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "HEARTBEAT_S", 0.02)
    lock = RunLock(state, "p")
    lock.take()
    write, failures, told = state.write, [OSError("no space left")] * 3, threading.Event()

    def full_for_a_while(name: str, value: dict[str, object]) -> None:
        if failures:
            raise failures.pop()
        write(name, value)
        told.set()

    monkeypatch.setattr(state, "write", full_for_a_while)
    assert told.wait(30)
    lock.release(RunStatus.FINISHED)


@pytest.mark.parametrize("killed", ["while the new one was written", "before the move"])
def test_where_no_move_puts_a_file_in_another_s_place_a_kill_leaves_the_old_one_or_the_new(
    tmp_path: Path, killed: str
) -> None:
    state, root = StateDirectory(str(tmp_path / "state")), tmp_path / "state"
    state._moves_over = False  # as on HDFS
    state.write("x.json", {"x": 1})
    state.write("x.json", {"x": 2})
    assert [path.name for path in root.iterdir()] == ["x.json"]
    if killed == "before the move":
        (root / "x.json").rename(root / "x.json.new")
    else:
        (root / "x.json.new").write_text('{"x"')
    assert state.read("x.json") == {"x": 2}
    state.write("x.json", {"x": 3})
    assert state.read("x.json") == {"x": 3}
    assert [path.name for path in root.iterdir()] == ["x.json"]


def test_a_ledger_s_entry_is_of_one_pipeline_id(state: StateDirectory) -> None:
    ledger = Ledger(state)
    entry = ledger.entry(0, "one")
    entry.read = {"rows": 5, "rejected": 1}
    entry.put("lake", 4, replayed=False)
    entry.totals = add_totals(ledger.totals_before(0, "one"), entry)
    entry.complete = True
    ledger.save(entry)
    assert ledger.entry(0, "one").sinks["lake"]["rows"] == 4
    assert ledger.entry(0, "one").complete
    assert not ledger.entry(0, "another").complete
    assert ledger.totals_before(1, "one") == {"batches": 1, "rows_in": 5, "rejected": 1, "rows_out": {"lake": 4}}
    assert ledger.totals_before(1, "another")["rows_in"] == 0


def test_old_entries_of_a_ledger_go(state: StateDirectory) -> None:
    ledger = Ledger(state, query="step-x")
    for batch_id in (0, KEPT):
        entry = ledger.entry(batch_id, "p")
        entry.complete = True
        ledger.save(entry)
    assert list(state.names("ledger/step-x")) == [f"{KEPT}.json"]


def test_what_is_done_first_is_done_before_the_run_is_told_and_not_if_another_holds_the_state(
    state: StateDirectory,
) -> None:
    told: list[object] = []
    lock = RunLock(state, "p")
    lock.take(first=lambda: told.append(state.read(RUN)))
    assert told == [None]
    with pytest.raises(ConfigError, match="runs already") as found:
        RunLock(state, "p").take(first=lambda: told.append("again"))
    assert found.value.__cause__ is None  # what the system calls it tells nobody anything
    assert found.value.hint == "stop that run first:  pytubemq pipeline stop FILE"
    assert told == [None]
    lock.release(RunStatus.FINISHED)
