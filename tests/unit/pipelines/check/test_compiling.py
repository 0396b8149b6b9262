"""A step that Spark does not take, told with its place in the file, whoever has met it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import ConfigError
from pytubemq.pipelines import load_checked
from pytubemq.pipelines.check.compiling import place_step_error
from pytubemq.pipelines.file.faults import PipelineFileError
from pytubemq.pipelines.spark_faults import StepError, refused

if TYPE_CHECKING:
    from pathlib import Path

SAID = (
    "[UNRESOLVED_COLUMN.WITH_SUGGESTION] `amont` cannot be resolved. Did you mean [`amount`]? SQLSTATE: 42703; "
    "line 2 pos 6;\n'Project [*, 'date('at) AS day#7]\n+- 'Filter ('amont > 0)\n"
)
FILE = """\
name: orders
source: {topic: orders, master: "127.0.0.1:8715"}
decode: {format: json, schema: "amount INT"}
steps:
  - name: first
    sql: SELECT * FROM input
  - name: paid
    sql: |
      SELECT * FROM input
      WHERE amont > 0
sinks: [{name: out, format: console}]
"""


def test_what_spark_says_of_a_query_ends_before_the_query_and_its_plan() -> None:
    assert refused(Exception(SAID)) == SAID.partition(" SQLSTATE")[0]


def test_a_step_that_a_run_could_not_make_has_its_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(FILE)
    loaded = load_checked(str(file))
    error = StepError("step paid does not compile: no amont", step="paid", hint="look")
    error.__cause__ = Exception(SAID)
    told = place_step_error(error, loaded.require(), loaded.places)
    assert isinstance(told, PipelineFileError)
    (fault,) = told.faults
    assert (fault.line, fault.column, fault.message) == (10, 13, "step paid does not compile: no amont")
    assert told.hint == "look"
    other = ConfigError("something else")
    assert place_step_error(other, loaded.require(), loaded.places) is other
