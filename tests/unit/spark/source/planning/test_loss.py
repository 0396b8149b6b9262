"""Holes: an error, a line in the log, or a file that a replay writes again under the same name."""

from __future__ import annotations

import dataclasses
import json
import logging
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ConfigError, OffsetMovedError
from pytubemq.model.ids import Partition
from pytubemq.spark.source.options import OnDataLoss, parse_options
from pytubemq.spark.source.planning.loss import lose
from pytubemq.spark.source.planning.plan import Ends, Hole

if TYPE_CHECKING:
    from pathlib import Path

HOLE = Hole(Partition(1, "demo", 3), 28, 280, Ends(280, 2800))
OPTIONS = parse_options({"master": "a", "topic": "demo"})


def test_a_hole_is_an_error_by_default() -> None:
    with pytest.raises(OffsetMovedError, match="rows 28 to 280 are wanted"):
        lose(HOLE, OPTIONS)


def test_a_hole_that_is_passed_over_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        lose(HOLE, dataclasses.replace(OPTIONS, on_data_loss=OnDataLoss.IGNORE))
    assert "9 rows, 28 to 280, are gone; the Broker has 280 to 2800" in caplog.text


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_hole_is_written_once_however_often_it_is_found(tmp_path: Path, scheme: str) -> None:
    directory = tmp_path / "holes" / "of demo"
    options = dataclasses.replace(OPTIONS, on_data_loss=OnDataLoss.REPORT, loss_directory=f"{scheme}{directory}")
    if scheme:
        options = dataclasses.replace(options, loss_directory=directory.as_uri())
    lose(HOLE, options)
    lose(HOLE, options)
    (written,) = directory.iterdir()
    assert written.name == "demo-1-3-28-280.json"
    found = json.loads(written.read_text())
    assert found.pop("foundAt")
    assert found == {
        "topic": "demo",
        "brokerId": 1,
        "partition": 3,
        "fromOffset": 28,
        "toOffset": 280,
        "rows": 9,
        "firstKept": 280,
        "lastKept": 2800,
    }


@pytest.mark.parametrize("directory", ["/proc/nowhere/x", "nosuchscheme://x/y", "relative/path"])
def test_a_directory_that_cannot_be_written_is_an_error(directory: str) -> None:
    options = dataclasses.replace(OPTIONS, on_data_loss=OnDataLoss.REPORT, loss_directory=directory)
    with pytest.raises(ConfigError, match="lossDirectory"):
        lose(HOLE, options)
