"""`pytubemq pipeline test`: the tests inside a file."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pytubemq.cli.options import current, global_options
from pytubemq.cli.output.output import emit_lines, emit_rows
from pytubemq.cli.output.words import count_of
from pytubemq.cli.pipeline.command_arguments import as_given, file_argument, need_spark, set_option
from pytubemq.errors import ConfigError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.pipelines import CaseResult, Mismatch

COLUMNS = ["name", "line", "passed", "seconds", "problems"]


@click.command()
@file_argument
@click.option("--only", metavar="TEXT", default="", help="Run only the tests with TEXT in their name.")
@set_option
@global_options
def test(file: str, only: str, variables: dict[str, str]) -> int:
    """Run the tests inside FILE: messages in, rows out, on Spark in this machine and without a cluster.

    Ends with 1 if a test fails, and with 78 if the file has errors or no test.
    """
    from pytubemq.cli.pipeline.spark_log import spark_log
    from pytubemq.pipelines import let_steps_import, load_checked

    options = current()
    loaded = load_checked(file, variables=variables)
    pipeline = loaded.require()
    if not any(only in case.name for case in pipeline.tests):
        text = f"{file} has no test with {only!r} in its name" if only else f"{file} has no tests"
        raise ConfigError(text, hint="see `tests` in docs/reference/pipeline-file.md")
    need_spark("pipeline test")
    let_steps_import(file)
    results = []
    human = options.output in {None, "table"}
    with tempfile.TemporaryDirectory(prefix="pytubemq-test-") as scratch, spark_log(Path(scratch) / "spark.log"):
        from pytubemq.pipelines import run_tests

        for result in run_tests(pipeline, loaded.places, only=only):
            results.append(result)
            if human:
                emit_lines(as_text(result, file))
    failed = sum(not result.passed for result in results)
    if not human:
        emit_rows(options, [as_row(result) for result in results], COLUMNS, name="name")
    done = (
        f"{failed} of {count_of(len(results), 'test')} failed" if failed else f"{count_of(len(results), 'test')} passed"
    )
    options.say(done)
    if not failed and human:
        options.say(f"Next:  {options.next(f'pytubemq pipeline dry-run {as_given(file, variables)}')}")
    return ExitCode.FAILED if failed else ExitCode.DONE


def as_text(result: CaseResult, file: str) -> list[str]:
    """Return a line for a test that passed; the expected and the actual rows for one that failed."""
    if result.passed:
        return [f"ok    {result.name}  {result.seconds:.1f} s"]
    lines = [f"FAIL  {result.name}  ({file}:{result.line})"]
    if result.error is not None:
        lines += [f"  error  {line}" for line in str(result.error).splitlines()]
    for sink, mismatches in result.mismatches.items():
        for mismatch in mismatches:
            lines += [f"  {sink}", *(f"    {line}" for line in _difference(mismatch))]
    return lines


def _difference(mismatch: Mismatch) -> list[str]:
    if mismatch.unknown:
        return list(mismatch.unknown)
    if mismatch.expected is None:
        return [f"not expected  {shown(mismatch.actual or {})}"]
    if mismatch.actual is None:
        return [f"expected      {shown(mismatch.expected)}", "got           nothing"]
    named = {name: mismatch.actual.get(name) for name in mismatch.expected}
    return [
        f"expected      {shown(mismatch.expected)}",
        f"got           {shown(named)}",
        f"differs in    {', '.join(mismatch.columns)}",
    ]


def as_row(result: CaseResult) -> dict[str, Any]:
    """Return a test for machines."""
    problems = [
        {"sink": sink, "text": "; ".join(_difference(mismatch))}
        for sink, mismatches in result.mismatches.items()
        for mismatch in mismatches
    ]
    if result.error is not None:
        problems.append({"sink": "", "text": str(result.error)})
    return {
        "name": result.name, "line": result.line, "passed": result.passed, "seconds": round(result.seconds, 3),
        "problems": problems,
    }  # fmt: skip


def shown(row: Mapping[str, Any]) -> str:
    """Return a row in one line, as a pipeline file would write it."""
    return "{" + ", ".join(f"{name}: {_value(value)}" for name, value in row.items()) + "}"


def _value(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 200 else text[:197] + "..."
