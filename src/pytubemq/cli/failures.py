"""Errors in the form that people and scripts read.

The invariant: every exception ends in one message on standard error and an exit code of `ExitCode`; a traceback is
shown only on request.
"""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from typing import TYPE_CHECKING, TextIO

import click

from pytubemq.cli.output.farewell import say_farewell
from pytubemq.errors import ExitCode, TubeError
from pytubemq.model.names import escaped, escaped_json, escaped_text

if TYPE_CHECKING:
    from pytubemq.cli.options import GlobalOptions


def report(error: BaseException, options: GlobalOptions) -> int:
    """Print an error and return its exit code."""
    if isinstance(error, click.exceptions.Exit):
        return int(error.exit_code)
    if isinstance(error, SystemExit):
        return (
            error.code if isinstance(error.code, int) else int(ExitCode.DONE if error.code is None else ExitCode.FAILED)
        )
    if isinstance(error, BrokenPipeError):
        # The reader of our output has read enough (`| head`). Nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.INTERRUPTED)
    if isinstance(error, click.UsageError) and type(error).__name__ == "NoArgsIsHelpError":  # not in every click
        click.echo(error.format_message())
        return int(ExitCode.DONE)
    notes = getattr(error, "__notes__", [])
    if isinstance(error, KeyboardInterrupt | click.exceptions.Abort):
        say_farewell("" if options.quiet else "; ".join(["interrupted", *notes]))
        return int(ExitCode.INTERRUPTED)
    if isinstance(error, BaseExceptionGroup):
        return report(_first(error), options)
    if isinstance(error, TubeError) and options.chosen is not None:
        from pytubemq.cli.target import profile_hint

        error.hint = profile_hint(error, options)
    failure = describe(error)
    failure["message"] = "\n".join([str(failure["message"]), *notes])
    show(failure, options)
    if options.verbose:
        traceback.print_exception(error, file=sys.stderr)
    return int(str(failure["exit"]))


def describe(error: BaseException) -> dict[str, object]:
    """Return an error as one object: code, message, why, try, retriable, exit."""
    if isinstance(error, click.NoSuchOption) and error.option_name == "--master" and _of_pipelines(error):
        return _failure(
            "usage",
            "No such option '--master': the Masters are named in the file, at source.master",
            hint="a file without that key takes those of the profile:  -P NAME",
            exit_code=ExitCode.USAGE,
        )
    if isinstance(error, click.NoSuchOption) and error.option_name in _OF_COMMANDS and _in_group(error):
        return _failure(
            "usage",
            f"No such option {error.option_name!r} before the command",
            hint=f"it goes after the command's name, as in  pytubemq {_OF_COMMANDS[error.option_name]}",
            exit_code=ExitCode.USAGE,
        )
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "pytubemq"
        return _failure("usage", _usage_text(error), hint=f"{command} --help", exit_code=ExitCode.USAGE)
    if isinstance(error, click.ClickException):
        return _failure("usage", error.format_message(), exit_code=ExitCode.USAGE)
    if isinstance(error, TubeError):
        return _failure(
            error_code(error), error.message, why=_why(error), hint=error.hint, retriable=error.retriable,
            exit_code=error.exit_code,
        )  # fmt: skip
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return _failure("failed", f"{where}{error.strerror or error}")
    return _failure(
        "internal",
        f"{type(error).__name__}: {error}",
        hint="this is a bug in pytubemq: run it again with -v and report its output",
    )


def _usage_text(error: click.UsageError) -> str:
    """Return click's text in one line, with plain words for numbers."""
    text = re.sub(r"\s*\n\s*", " ", error.format_message())
    text = re.sub(r"is not a valid integer( range)?(?=\.|$)", "is not a whole number", text)
    return re.sub(r"is not a valid float( range)?(?=\.|$)", "is not a number", text)


_OF_COMMANDS = {"--master": "consume demo --master HOST:PORT", "--http": "topic list --http URL"}
"""Options that look as if every command had them."""


def _of_pipelines(error: click.UsageError) -> bool:
    return error.ctx is not None and error.ctx.command_path.split()[1:2] == ["pipeline"]


def _in_group(error: click.UsageError) -> bool:
    return error.ctx is not None and isinstance(error.ctx.command, click.Group)


def _why(error: TubeError) -> str | None:
    """Return the cause of an error, unless its message names it already."""
    cause = error.__cause__
    if cause is None or isinstance(cause, LookupError):
        return None
    text = (cause.strerror if isinstance(cause, OSError) else None) or str(cause)
    first = text.splitlines()[0] if text else ""  # the rest is a hint
    return None if first in error.message else first


def error_code(error: TubeError) -> str:
    """Return the protocol's number, or the class's name for a local error: `unreachable`, `directory-locked`."""
    if error.code is not None:
        return str(int(error.code))
    return class_code(type(error))


def class_code(kind: type[TubeError]) -> str:
    """Return `DirectoryLockedError` as `directory-locked`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__.removesuffix("Error")).lower()


def show(failure: dict[str, object], options: GlobalOptions, *, stream: TextIO | None = None) -> None:
    """Print a failure on standard error: one JSON object with -o json or jsonl, lines otherwise."""
    stream = stream or sys.stderr
    if options.output in {"json", "jsonl"}:
        click.echo(escaped_json(json.dumps(failure, ensure_ascii=False)), file=stream)
        return
    head = click.style("error", fg="red", bold=True) if options.colour else "error"
    lines = [escaped(line) for line in str(failure["message"]).splitlines()]
    click.echo("\n        ".join([f"{head} TUBE-{failure['code']}  {lines[0]}", *lines[1:]]), file=stream)
    for key in ("why", "try"):
        if failure[key]:
            click.echo(f"  {key:<5} {escaped_text(_typed(str(failure[key])))}", file=stream)


def _typed(text: str) -> str:
    from pytubemq.cli.command_table import COMMANDS
    from pytubemq.cli.invocation import commands_as_typed

    return commands_as_typed(text, list(COMMANDS))


def _failure(
    code: str,
    message: str,
    *,
    why: str | None = None,
    hint: str | None = None,
    retriable: bool = False,
    exit_code: ExitCode = ExitCode.FAILED,
) -> dict[str, object]:
    remedy = re.sub(r"^try\s+", "", hint) if hint else None
    return {
        "code": int(code) if code.isdigit() else code,
        "message": message,
        "why": why,
        "try": remedy,
        "retriable": retriable,
        "exit": int(exit_code),
    }


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the most useful error of a group: one that we raised on purpose before any other."""
    flat: list[BaseException] = []
    pending: list[BaseException] = list(group.exceptions)
    while pending:
        error = pending.pop(0)
        if isinstance(error, BaseExceptionGroup):
            pending[:0] = list(error.exceptions)
        else:
            flat.append(error)
    return next((error for error in flat if isinstance(error, TubeError | KeyboardInterrupt)), flat[0])
