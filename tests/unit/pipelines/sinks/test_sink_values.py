"""Options and names that a sink's format does not take are refused: also in a pipeline that no file holds."""

from __future__ import annotations

import pytest

from pytubemq.errors import ConfigError
from pytubemq.pipelines.file.model import DeadLetter, Guarantee, Sink
from pytubemq.pipelines.sinks.sink_factory import make_dead_letters, make_sink
from pytubemq.pipelines.sinks.sink_writer import SinkContext
from pytubemq.pipelines.sinks.tubemq.writer import TubeMqSink

KAFKA = {"kafka.bootstrap.servers": "h:9092"}


@pytest.mark.parametrize(
    ("format", "option"),
    [
        ("delta", "txnVersion"),
        ("delta", "TXNAPPID"),
        ("delta", "userMetadata"),
        ("parquet", "checkpointLocation"),
        ("iceberg", "path"),
        ("tubemq", "batchId"),
    ],
)
def test_a_sink_and_dead_letters_that_set_what_the_runner_sets_are_refused(format: str, option: str) -> None:
    given = {"mergeSchema": "false", option: "5"}
    with pytest.raises(ConfigError, match=rf"sink lake: options\.{option}: is set by the runner"):
        make_sink(Sink("lake", format, path="/lake", master="h:8715", options=given))
    with pytest.raises(ConfigError, match=rf"sink dead_letter: options\.{option}: is set by the runner"):
        make_dead_letters(DeadLetter(format, master="h:8715", options=given), beside="/letters")


def test_other_options_are_the_file_s() -> None:
    assert make_sink(Sink("lake", "delta", path="/lake", options={"mergeSchema": "false"}))
    assert make_sink(Sink("lake", "parquet", path="/lake", options={"userMetadata": "x"}))
    assert make_sink(Sink("copies", "kafka", topic="a.b-c_d", options={**KAFKA, "kafka.acks": "all"}))
    assert make_sink(Sink("look", "console", options={"Rows": "7"}))


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        (Sink("s", "parquet", path="/x", options={"Path": "/y"}), r"options\.Path: has .* the key path"),
        (Sink("s", "jdbc", options={"dbTable": "t"}), r"options\.dbTable: has .* the key table"),
        (Sink("s", "kafka", options={"topic": "t"}), r"options\.topic: has .* the key topic"),
        (Sink("s", "kafka", options={**KAFKA, "kafka.acks": "0"}), r"options\.kafka\.acks: 0 waits for no"),
        (Sink("s", "kafka", topic="a b", options=KAFKA), "topic: 'a b' cannot be the name of a Kafka topic"),
        (Sink("s", "tubemq", topic="1bad", master="h:1"), "topic: not a topic name: '1bad'"),
        (Sink("s", "iceberg", table="ice"), r"table: 'ice' names no catalog\n.*catalog\.database\.table"),
        (Sink("s", "console", options={"row": "5"}), r"options\.row: is not an option .*\n.*did you mean rows"),
        (Sink("s", "console", options={"rows": "x"}), r"options\.rows: 'x' is not a number from 1 to 10000"),
        (Sink("s", "console", options={"rows": "9", "Rows": "8"}), r"options\.Rows: is rows again"),
    ],
)
def test_what_a_format_does_not_take_is_refused_with_its_key_and_the_remedy(sink: Sink, said: str) -> None:
    with pytest.raises(ConfigError, match=rf"(?s)sink s: {said}"):
        make_sink(sink)


def test_a_name_by_reference_is_refused_once_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink("s", "iceberg", table="${env:TABLE_OF_TEST}")
    monkeypatch.setenv("TABLE_OF_TEST", "lake.shop.orders")
    assert make_sink(sink)
    monkeypatch.setenv("TABLE_OF_TEST", "orders")
    with pytest.raises(ConfigError, match="'orders' names no catalog"):
        make_sink(sink)


@pytest.mark.parametrize("name", ["idempotent", "Idempotent"])
def test_idempotent_is_one_option_in_any_case(name: str) -> None:
    sink = TubeMqSink(Sink("s", "tubemq", topic="t", master="h:1", options={name: "false", "timeout": "5s"}))
    assert sink.guarantee is Guarantee.AT_LEAST_ONCE
    context = SinkContext(None, "p-1")  # type: ignore[arg-type]
    assert sink._options(0, context) == {"timeout": "5s", "master": "h:1", "topic": "t"}
    sink = TubeMqSink(Sink("s", "tubemq", topic="t", master="h:1", options={name: "true"}))
    assert sink.guarantee is Guarantee.EXACTLY_ONCE
    assert [key for key in sink._options(0, context) if key.lower() == "idempotent"] == ["idempotent"]
