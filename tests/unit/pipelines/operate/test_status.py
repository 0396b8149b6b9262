"""How a pipeline stands, from what its run left in the state directory."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ConfigError, NotFoundError, RefusedError, TubeError
from pytubemq.pipelines import read
from pytubemq.pipelines.file.model import Pipeline, Source
from pytubemq.pipelines.operate.backfills import read_backfills
from pytubemq.pipelines.operate.status import STALE_HERE_S, RunState, read_status
from pytubemq.pipelines.operate.stop import ask_to_stop, wait_for_end
from pytubemq.pipelines.run.engine import run_pipeline
from pytubemq.pipelines.state.files import STALE_S, state_files
from pytubemq.pipelines.state.state_location import state_location
from tests.unit.pipelines.operate.state import NOW_S, write_state

if TYPE_CHECKING:
    from pathlib import Path


def standing(place: Path, *, later_s: float = 0.0) -> RunState:
    return read_status(state_files(str(place)), now_s=time.time() + later_s).run_state


def gone_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_run_whose_process_lives_runs(tmp_path: Path) -> None:
    found = read_status(state_files(str(write_state(tmp_path)))).as_dict()
    assert (found["status"], found["rows_in"], found["rejected"], found["last_batch"]) == ("running", 3_000, 30, 2)
    assert (found["lag_rows"], found["lag_s"], found["rows_per_s"]) == (4_998, 2.5, 1_000.0)
    assert found["heartbeat_age_s"] is not None
    json.dumps(found)
    ended = read_status(state_files(str(write_state(tmp_path / "ended", status="finished")))).as_dict()
    assert ended["heartbeat_age_s"] is None  # it has none any more


def test_a_run_without_a_batch_says_what_it_is_at(tmp_path: Path) -> None:
    place = write_state(tmp_path, batches=0)

    def doing(**run: object) -> object:
        write_state(place, batches=0, **run)
        return read_status(state_files(str(place))).as_dict()["doing"]

    assert doing() == "starting Spark"
    assert doing(ready=NOW_S) == "no batch yet"
    for name in ("offsets/6", "commits/6", "offsets/7", "offsets/.7.crc"):
        (place / "checkpoint" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "checkpoint" / name).touch()
    assert doing(ready=NOW_S) == "in batch 7"
    (place / "checkpoint-step-day/offsets").mkdir(parents=True)
    (place / "checkpoint-step-day/offsets/0").touch()
    assert doing(ready=NOW_S, queries=["main", "step-day"]) == "in batches 0 and 7"
    assert doing(ready=NOW_S, status="failed") is None
    (place / "checkpoint/commits/7").touch()
    write_state(place, ready=NOW_S)
    assert read_status(state_files(str(place))).as_dict()["doing"] is None


@pytest.mark.process
def test_a_run_whose_process_is_gone_is_dead(tmp_path: Path) -> None:
    assert standing(write_state(tmp_path, pid=gone_process())) is RunState.DEAD


@pytest.mark.process
def test_on_another_machine_the_heartbeat_counts(tmp_path: Path) -> None:
    place = write_state(tmp_path, host="elsewhere", pid=gone_process())
    assert standing(place) is RunState.RUNNING
    assert standing(place, later_s=STALE_S) is RunState.DEAD


def test_a_process_that_got_the_number_of_a_dead_run_is_not_taken_for_it(tmp_path: Path) -> None:
    assert standing(write_state(tmp_path), later_s=STALE_HERE_S) is RunState.DEAD


@pytest.mark.process
@pytest.mark.parametrize("said", ["finished", "stopped", "failed"])
def test_the_end_of_a_run_is_what_it_says(tmp_path: Path, said: str) -> None:
    assert standing(write_state(tmp_path, status=said, pid=gone_process())) == said


@pytest.mark.process
def test_the_backfills_of_a_pipeline_are_listed_with_how_each_stands(tmp_path: Path) -> None:
    place = write_state(tmp_path)
    assert read_backfills(state_files(str(place))) == []
    write_state(place / "backfill/later", batches=1, started=NOW_S, status="finished")
    write_state(place / "backfill/first", started=NOW_S - 60, pid=gone_process())
    (place / "backfill/never").mkdir()
    found = read_backfills(state_files(str(place)))
    assert [(one["backfill"], one["status"], one["rows_in"]) for one in found] == [
        ("first", "dead", 3_000),
        ("later", "finished", 1_000),
    ]


def test_where_nothing_has_run_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="not run yet"):
        state_files(str(tmp_path / "none"))
    assert list(tmp_path.iterdir()) == []


def test_broken_files_of_a_state_do_not_hide_how_it_stands(tmp_path: Path) -> None:
    place = write_state(tmp_path, status="finished")
    (place / "spec.json").write_text("{")
    (place / "progress.jsonl").write_bytes(b"\xff\xfe\n[]\n5\n")
    (place / "ledger" / "0.json").write_text("no")
    assert read_status(state_files(str(place))).as_dict()["batches"] == 0


def test_a_running_pipeline_is_asked_to_stop_and_waited_for(tmp_path: Path) -> None:
    place = write_state(tmp_path)
    files = state_files(str(place))
    assert ask_to_stop(files).run_state is RunState.STOPPING
    assert (place / "stop").exists()
    threading.Timer(0.05, lambda: write_state(place, status="stopped")).start()
    assert wait_for_end(files, wait_s=30).run_state is RunState.STOPPED


def test_what_does_not_run_is_not_asked_to_stop(tmp_path: Path) -> None:
    place = write_state(tmp_path, status="finished")
    with pytest.raises(RefusedError, match="finished"):
        ask_to_stop(state_files(str(place)))
    assert not (place / "stop").exists()


@pytest.mark.process
def test_a_run_that_does_not_end_in_time_or_is_killed_is_told(tmp_path: Path) -> None:
    files = state_files(str(write_state(tmp_path)))
    with pytest.raises(TubeError, match="still runs"):
        wait_for_end(files, wait_s=0)
    write_state(tmp_path, pid=gone_process())
    with pytest.raises(TubeError, match="was killed"):
        wait_for_end(files, wait_s=30)


def test_the_state_lies_beside_the_file_unless_the_file_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "orders.yaml"
    source = Source(topics=("t",))
    assert state_location(Pipeline("orders", source), file) == str(tmp_path / ".pytubemq" / "orders")
    assert state_location(Pipeline("orders", source, state="st"), file) == str(tmp_path / "st")
    assert state_location(Pipeline("orders", source, state="hdfs://h/st"), file) == "hdfs://h/st"
    monkeypatch.setenv("OUT", "/data")
    assert state_location(Pipeline("orders", source, state="${env:OUT}/st"), file) == "/data/st"


def test_the_state_of_a_pipeline_without_a_file_lies_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pipeline = Pipeline("orders", Source(topics=("t",)))
    assert state_location(pipeline) == str(tmp_path / ".pytubemq" / "orders")
    with pytest.raises(ConfigError):  # it has no sink: no rule lets it begin
        run_pipeline(pipeline)
    assert (tmp_path / ".pytubemq" / "orders" / "run.json").exists()


def test_a_file_that_is_read_in_python_keeps_its_state_and_its_paths_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    file = tmp_path / "sub" / "p.yaml"
    file.write_text(
        "name: orders\nsource: {format: csv, path: in}\nsinks: [{name: lake, format: delta, path: out}]\n", "utf-8"
    )
    monkeypatch.chdir(tmp_path)
    pipeline = read("sub/p.yaml")
    state = str(tmp_path / "sub" / ".pytubemq" / "orders")
    assert (pipeline.state, state_location(pipeline), state_location(pipeline, file)) == (state, state, state)
    assert (pipeline.source.path, pipeline.sinks[0].path) == (str(file.parent / "in"), str(file.parent / "out"))


@pytest.mark.process
def test_looking_at_a_state_loads_neither_spark_nor_arrow(tmp_path: Path) -> None:
    write_state(tmp_path)
    code = (
        "import sys; from pytubemq.pipelines.operate import status; from pytubemq.pipelines.report import page;"
        "from pytubemq.pipelines.state import files;"
        f"record = status.read_status(files.state_files({str(tmp_path)!r})).record;"
        "print([m for m in ('pyspark', 'pyarrow', 'yaml') if m in sys.modules]); page.page(record);"
        "print([m for m in ('pyspark', 'pyarrow') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["[]", "[]"]
