"""`pytubemq pipeline lint`: every fault of a file with its place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from pytubemq.cli.options import current, global_options
from pytubemq.cli.output.output import emit_lines, emit_rows
from pytubemq.cli.output.words import count_of
from pytubemq.cli.pipeline.command_arguments import as_given, set_option
from pytubemq.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytubemq.pipelines import Fault

COLUMNS = ["file", "line", "column", "severity", "code", "key", "message", "hint"]


@click.command()
@click.argument("files", nargs=-1, type=click.Path())
@click.option("--schema", is_flag=True, help="Print the JSON schema of pipeline files instead, for editors.")
@set_option
@global_options
def lint(files: tuple[str, ...], schema: bool, variables: dict[str, str]) -> int:
    """Find the faults of pipeline files, each with its line, column and remedy.

    Neither Spark nor a cluster is needed. Ends with 78 if there is an error, and with 0 if there are only warnings.
    """
    if schema:
        from pytubemq.pipelines import json_schema

        click.echo(json.dumps(json_schema(), indent=2))
        return ExitCode.DONE
    if not files:
        raise click.UsageError("name a file, as in  pytubemq pipeline lint orders.yaml")
    from pytubemq.pipelines import Severity
    from pytubemq.pipelines import lint as faults_of

    given = _given(files, variables)
    faults = [fault for file in files for fault in faults_of(file, variables=given[file])]
    errors = sum(fault.severity is Severity.ERROR for fault in faults)
    code = ExitCode.BAD_CONFIG if errors else ExitCode.DONE
    options = current()
    if options.output not in {None, "table"}:
        emit_rows(options, [as_row(fault) for fault in faults], COLUMNS, name="code")
        return code
    emit_lines(as_text(faults))
    options.say(_summary(faults, errors, code, given))
    return code


def _given(files: Sequence[str], variables: dict[str, str]) -> dict[str, dict[str, str]]:
    """Return the variables for each file: of several files it is enough that one of them names a variable."""
    if not variables or len(files) == 1:
        return dict.fromkeys(files, variables)
    from pytubemq.pipelines import load

    named = {file: load(file, variables=variables).variables for file in files}
    anywhere = frozenset[str]().union(*named.values())
    return {
        file: {name: text for name, text in variables.items() if name in named[file] or name not in anywhere}
        for file in files
    }


def as_row(fault: Fault) -> dict[str, Any]:
    """Return a fault for machines."""
    row = {column: getattr(fault, column) for column in COLUMNS}
    return row | {"severity": fault.severity.value, "code": fault.code.value}


def as_text(faults: Sequence[Fault]) -> list[str]:
    """Return a line for each, in the form of compilers, so that editors find the position."""
    places = [fault.place for fault in faults]
    words = ["warn " if fault.severity == "warning" else "error" for fault in faults]
    width = max(map(len, places), default=0)
    return [
        f"{place.ljust(width)}  {word}  {fault.text}  [{fault.code}]"
        for place, word, fault in zip(places, words, faults, strict=True)
    ]


def _summary(faults: Sequence[Fault], errors: int, code: ExitCode, given: Mapping[str, dict[str, str]]) -> str:
    if not faults:
        from pytubemq.cli.invocation import as_typed

        file, variables = next(iter(given.items()))
        checked = file if len(given) == 1 else count_of(len(given), "file")
        return f"{checked}: no faults\nNext:  {as_typed(f'pytubemq pipeline test {as_given(file, variables)}')}"
    warnings = len(faults) - errors
    said = ", ".join(
        count_of(number, word) for number, word in ((errors, "error"), (warnings, "warning")) if number
    )  # fmt: skip
    codes = dict.fromkeys(fault.code.value for fault in sorted(faults, key=lambda fault: fault.severity != "error"))
    from pytubemq.cli.invocation import as_typed

    explain = as_typed(f"pytubemq errors show {' '.join(codes)}")
    return f"{said} · exit {int(code)}     explain: {explain}"
