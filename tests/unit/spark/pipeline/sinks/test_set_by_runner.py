"""Options on which a sink's promise rests are the runner's: also in a pipeline that no file holds."""

from __future__ import annotations

import pytest

from pytubemq.errors import ConfigError
from pytubemq.spark.pipeline.sinks.make import make_dead_letters, make_sink
from pytubemq.spark.pipeline.spec.model import DeadLetter, Sink, SinkFormat


@pytest.mark.parametrize(
    ("format", "option"),
    [
        (SinkFormat.DELTA, "txnVersion"),
        (SinkFormat.DELTA, "TXNAPPID"),
        (SinkFormat.DELTA, "userMetadata"),
        (SinkFormat.DELTA, "path"),
        (SinkFormat.TUBEMQ, "batchId"),
    ],
)
def test_a_sink_and_dead_letters_that_set_what_the_runner_sets_are_refused(format: SinkFormat, option: str) -> None:
    given = {"mergeSchema": "false", option: "5"}
    with pytest.raises(ConfigError, match=f"sink lake: the runner sets the option {option}"):
        make_sink(Sink("lake", format, path="/lake", master="h:8715", options=given))
    with pytest.raises(ConfigError, match=f"sink dead_letter: the runner sets the option {option}"):
        make_dead_letters(DeadLetter(format, master="h:8715", options=given), beside="/letters")


def test_other_options_are_the_file_s() -> None:
    assert make_sink(Sink("lake", SinkFormat.DELTA, path="/lake", options={"mergeSchema": "false"}))
    assert make_sink(Sink("lake", SinkFormat.PARQUET, path="/lake", options={"userMetadata": "x"}))
