"""What `init` writes has no fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.pipelines import load_checked
from pytubemq.pipelines.file.sink_table import SINKS
from pytubemq.pipelines.file.writing.template import TEMPLATE_FORMATS, template

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("message", TEMPLATE_FORMATS)
def test_a_template_has_no_fault_and_a_test(tmp_path: Path, message: str, sink: str) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(template(name="orders", file=file.name, topic="demo", message=message, sink=sink), "utf-8")
    loaded = load_checked(file)
    assert loaded.faults == ()
    pipeline = loaded.require()
    assert len(pipeline.tests) == 1
    assert "SELECT *" not in (pipeline.steps[0].sql or ""), "what a format adds is not for every sink"
    assert not any("iceberg.spark." in value for value in pipeline.spark.conf.values()), "Spark 4.2 cannot load these"
    assert (pipeline.decode and pipeline.decode.format, pipeline.sinks[0].format) == (message, sink)
