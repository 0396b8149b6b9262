"""`pytubemq pipeline dlq`: records that could not be decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pytubemq.cli.command_group import CommandGroup
from pytubemq.cli.options import current, global_options
from pytubemq.cli.output.output import emit_lines, emit_object, emit_rows
from pytubemq.cli.output.words import count_of
from pytubemq.cli.pipeline.command_arguments import as_given, file_argument, need_spark, set_option
from pytubemq.cli.pipeline.pipeline_file import open_file
from pytubemq.cli.pipeline.progress_display import Shown
from pytubemq.errors import ExitCode, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.cli.options import GlobalOptions
    from pytubemq.pipelines import Choice, DeadLetters, Pipeline, Redrive, Redriven, RunResult, Taken

REASONS = ["reason", "records", "stage", "topics", "first", "last", "example"]
LETTERS = ["id", "reason", "detail", "timestamp", "raw"]


def choice_options(most: str) -> Callable[[Any], Any]:
    """Decorator: the options that select dead letters."""

    def decorate(command: Any) -> Any:
        for option in (
            click.option("-n", "--most", type=click.IntRange(min=1), metavar="N", help=most),
            click.option(
                "--reason", metavar="REASON", help="Only of this reason: decode.json, or decode for all of it."
            ),
        ):
            command = option(command)
        return command

    return decorate


@click.group(cls=CommandGroup)
def dlq() -> None:
    """List, show, send again and drop records that could not be decoded: the dead letters."""


@dlq.command("list")
@file_argument
@set_option
@global_options
def list_letters(file: str, variables: dict[str, str]) -> None:
    """List the dead letters of FILE by reason, the most frequent first."""
    options = current()
    letters = _letters(options, open_file(options, file, variables))
    rows = letters.by_reason() if letters is not None else []
    emit_rows(options, rows, REASONS, name="reason")
    total = sum(row["records"] for row in rows)
    if total:
        show = f"{options.next('pytubemq pipeline dlq')} show {as_given(file, variables)} -n 10"
        options.say(f"{count_of(total, 'dead letter')}\nNext:  {show}")


@dlq.command("show")
@file_argument
@choice_options("The largest number of records [all].")
@set_option
@global_options
def show(file: str, reason: str | None, most: int | None, variables: dict[str, str]) -> None:
    """Show dead letters of FILE: their offsets, the reasons for their rejection, and their bytes."""
    from pytubemq.pipelines import dead_letter_rows

    options = current()
    letters = _letters(options, open_file(options, file, variables))
    if letters is None:
        emit_rows(options, [], LETTERS, name="id")
        return
    taken = letters.take(_choice(reason, most))
    emit_rows(options, dead_letter_rows(taken), LETTERS, name="id")
    if taken.more:
        options.say(f"these are the first {taken.rows.num_rows:,}: the most that are shown at once")


@dlq.command("redrive")
@file_argument
@choice_options("The largest number of records [all].")
@click.option("--dry-run", is_flag=True, help="Show how many would be affected, without changing anything.")
@click.option("--yes", is_flag=True, help="Confirm the redrive.")
@set_option
@global_options
def redrive(
    file: str, reason: str | None, most: int | None, dry_run: bool, yes: bool, variables: dict[str, str]
) -> int:
    """Put dead letters of FILE through its pipeline again, as the file is now, into its sinks.

    Those that are decoded are removed from the dead letters; those that are rejected again stay. A redrive that was
    killed is finished first; no sink that is exactly once gets a row twice.
    """
    _sure(dry_run, yes, "this writes to the sinks")
    from pytubemq.pipelines import Redriven, check_reason, stage_redrive, unfinished_redrive

    options = current()
    pipeline = open_file(options, file, variables)
    need_spark("pipeline dlq redrive")
    letters = _letters(options, pipeline)
    if letters is None:
        _report(options, pipeline, {"meant" if dry_run else "redriven": 0})
        return ExitCode.DONE
    left = unfinished_redrive(pipeline)
    if dry_run:
        found = letters.take(_choice(reason, most))
        check_reason(letters, found, reason)
        meant = found.rows.num_rows
        first = "" if left is None else f", after {left.rows:,} of an earlier redrive that was killed"
        text = f"{count_of(meant, 'dead letter')} would be put through{first}; nothing was written"
        _report(options, pipeline, {"meant": meant}, text)
        _say_more(options, found)
        return ExitCode.DONE
    choice = _choice(reason, most)
    letters.check_settling(choice)
    done = Redriven()
    if left is not None:
        options.say(f"finishing a redrive of {count_of(left.rows, 'dead letter')} that was killed")
        done.add(_carry_out(options, pipeline, left))
    taken = letters.take(choice)
    if left is None:
        check_reason(letters, taken, reason)
    if left is None or taken.rows.num_rows:
        done.add(_carry_out(options, pipeline, stage_redrive(pipeline, taken)))
    _report(options, pipeline, done.as_dict(), in_words(done))
    _say_more(options, taken)
    return ExitCode.DONE


@dlq.command("drop")
@file_argument
@choice_options("The largest number of records [all].")
@click.option("--dry-run", is_flag=True, help="Show how many would be affected, without changing anything.")
@click.option("--yes", is_flag=True, help="Confirm the deletion; their bytes are lost.")
@set_option
@global_options
def drop(file: str, reason: str | None, most: int | None, dry_run: bool, yes: bool, variables: dict[str, str]) -> None:
    """Drop dead letters of FILE for good."""
    _sure(dry_run, yes, "this drops records for good")
    from pytubemq.pipelines import drop_dead_letters

    options = current()
    pipeline = open_file(options, file, variables)
    letters, choice = _letters(options, pipeline), _choice(reason, most)
    if letters is None:
        _report(options, pipeline, {"meant" if dry_run else "dropped": 0})
        return
    if not dry_run:
        done = drop_dead_letters(letters, choice)
        text = f"{done.dropped:,} of {done.meant:,} dead letters dropped"
        _report(options, pipeline, {"dropped": done.dropped, "meant": done.meant}, text)
        return
    letters.check_settling(choice)
    taken = letters.take(choice)
    meant = taken.rows.num_rows
    more = ", and more: one call reads at most this many" if taken.more else ""
    _report(options, pipeline, {"meant": meant}, f"{count_of(meant, 'dead letter')} would be dropped{more}")


def _letters(options: GlobalOptions, pipeline: Pipeline) -> DeadLetters | None:
    """Return those of a pipeline; None if nothing was rejected yet, which is printed and is no error."""
    from pytubemq.pipelines import dead_letters_of

    try:
        return dead_letters_of(pipeline)
    except NotFoundError as error:
        options.say(error.message)
        return None


def _report(options: GlobalOptions, pipeline: Pipeline, counts: dict[str, Any], text: str | None = None) -> None:
    """Print the counts as an object where one was asked for, else the text, which says the same to people."""
    if options.output not in {None, "table"}:
        emit_object(options, {"pipeline": pipeline.name, **counts}, name="pipeline")
        if text is not None:
            options.say(text)
    elif text is not None:
        emit_lines([text])


def in_words(done: Redriven) -> str:
    """Return the results of a redrive in one line."""
    into = [f"{count_of(rows, 'row')} into {sink}" for sink, rows in done.rows_out.items()] or ["no rows"]
    return f"{count_of(done.letters, 'dead letter')} put through: {', '.join(into)}; {done.rejected:,} rejected again"


def _carry_out(options: GlobalOptions, pipeline: Pipeline, wanted: Redrive) -> Redriven:
    from pytubemq.cli.pipeline.commands.run import engine_run

    def run(over: Pipeline) -> RunResult:
        return engine_run(options, over, once=True, progress=Shown.AUTO, apart=wanted.apart).result

    return wanted.carry_out(pipeline, run)


def _say_more(options: GlobalOptions, taken: Taken) -> None:
    if taken.more:
        options.say("one redrive handles no more at once: the next redrive takes the others")


def _choice(reason: str | None, most: int | None) -> Choice:
    from pytubemq.pipelines import Choice

    return Choice(reason, most)


def _sure(dry_run: bool, yes: bool, what: str) -> None:
    if not dry_run and not yes:
        raise click.UsageError(f"{what}: preview it with --dry-run, then confirm with --yes")
