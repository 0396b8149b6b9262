"""What `plan`, the end of a run and its report promise of a topic is what its Brokers keep."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.net.iothread import IoThread
from pytubemq.pipelines.events import Started, event_as_json
from pytubemq.pipelines.file.model import Pipeline, Sink, Source
from pytubemq.pipelines.report.record import RunRecord, put_promises, read_record
from pytubemq.pipelines.state.files import state_files
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.protocol.extensions import OURS, Capability

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.unit.cli.conftest import Ran

OUT = Sink("out", "tubemq", topic="demo")
LAKE = Sink("lake", "parquet", path="/lake")
PIPELINE = Pipeline("p", Source(format="rate"), sinks=(OUT, LAKE))
FACTS: dict[str, Any] = {"run_id": "1", "pipeline_id": "p-1", "java": False}
WORDS = {"exactly_once": "exactly once", "at_least_once": "at least once"}


@pytest.fixture
def mock(request: pytest.FixtureRequest) -> Iterator[MockBroker]:
    """A Master and a Broker with the topic `demo`, that can do what the parameter says."""
    io = IoThread()
    mock = MockBroker(topics={"demo": 1}, capabilities=request.param)
    io.run(mock.start())
    yield mock
    io.run(mock.stop())
    io.close()


@pytest.mark.parametrize(
    ("mock", "said"), [(OURS, "exactly once"), (Capability(0), "at least once")], indirect=["mock"]
)
def test_a_plan_asks_the_brokers_that_a_sink_writes_to(
    tube: Callable[..., Ran], tmp_path: Path, mock: MockBroker, said: str
) -> None:
    sink = f"{{name: out, format: tubemq, topic: demo, master: '{mock.masters}'}}"
    (tmp_path / "p.yaml").write_text(f"name: p\nsource: {{format: rate}}\nsinks: [{sink}]")
    [planned] = json.loads(tube("pipeline", "plan", "p.yaml", "-o", "json").out)["sinks"]
    assert planned["guarantee"] == said
    [planned] = json.loads(tube("pipeline", "plan", "p.yaml", "--offline", "-o", "json").out)["sinks"]
    assert (planned["guarantee"], planned["needs"].partition(";")[0]) == ("exactly once", "pytubemq Brokers")


@pytest.mark.parametrize("found", list(WORDS))
def test_a_run_and_its_report_promise_what_the_sink_found(tmp_path: Path, found: str) -> None:
    promised = {"out": found, "lake": "exactly_once"}
    told = RunRecord()
    told.take(Started("p", "1", "p-1", "/state", ("out", "lake"), ("main",), 0.0, java=False, promised=promised))
    (tmp_path / "run.json").write_text(json.dumps({**FACTS, "pipeline": "p", "promised": promised}))
    for record in (told, read_record(state_files(str(tmp_path)))):
        put_promises(record, PIPELINE)
        assert [(name, said) for name, said, _ in record.guarantees] == [
            ("out", WORDS[found]),
            ("lake", "exactly once"),
        ]


def test_what_was_found_is_among_the_plain_values_of_the_event() -> None:
    started = Started("p", "1", "p-1", "/state", ("out",), ("main",), 0.0, promised={"out": "at_least_once"})
    assert json.loads(json.dumps(event_as_json(started)))["promised"] == {"out": "at_least_once"}
