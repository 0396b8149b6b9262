"""`pytubemq pipeline dlq`: records that could not be decoded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from pytubemq.cli.options import current, global_options
from pytubemq.cli.output.output import emit_object, emit_rows
from pytubemq.cli.output.words import count_of
from pytubemq.cli.pipeline.options import as_given, file_argument, need_spark, set_option
from pytubemq.cli.pipeline.pipeline_file import open_pipeline
from pytubemq.cli.pipeline.progress_display import Shown
from pytubemq.errors import ConfigError, ExitCode, NotFoundError, TubeError
from pytubemq.model.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytubemq.cli.options import GlobalOptions
    from pytubemq.pipelines.file.model import Pipeline
    from pytubemq.pipelines.operate.dead_letters import Choice, DeadLetters, Taken
    from pytubemq.pipelines.operate.redrive import Redrive

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


@click.group()
def dlq() -> None:
    """List, show, send again and drop records that could not be decoded: the dead letters."""


@dlq.command("list")
@file_argument
@set_option
@global_options
def list_letters(file: str, variables: dict[str, str]) -> None:
    """List the dead letters of FILE by reason, the most frequent first."""
    options = current()
    letters = _letters(options, open_pipeline(options, file, variables))
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
    from pytubemq.pipelines.operate.dead_letters import rows_of

    options = current()
    letters = _letters(options, open_pipeline(options, file, variables))
    if letters is None:
        emit_rows(options, [], LETTERS, name="id")
        return
    taken = letters.take(_choice(reason, most))
    emit_rows(options, rows_of(taken), LETTERS, name="id")
    if taken.more:
        options.say(f"these are the first {taken.rows.num_rows:,}: the most that are shown at once")


@dlq.command("redrive")
@file_argument
@choice_options("The largest number of records [all].")
@click.option("--dry-run", is_flag=True, help="Show how many would be affected, without doing it.")
@click.option("--yes", is_flag=True, help="Needed to do it.")
@set_option
@global_options
def redrive(
    file: str, reason: str | None, most: int | None, dry_run: bool, yes: bool, variables: dict[str, str]
) -> int:
    """Put dead letters of FILE through its pipeline again, as the file is now, into its sinks.

    Those that are decoded are removed from the dead letters; those that are rejected again stay. A redrive that was
    killed is finished first, and no sink gets a row twice.
    """
    _sure(dry_run, yes, "this writes to the sinks")
    from pytubemq.pipelines.operate.redrive import stage_redrive, unfinished

    options = current()
    pipeline = open_pipeline(options, file, variables)
    need_spark("pipeline dlq redrive")
    letters = _letters(options, pipeline)
    if letters is None:
        emit_object(options, {"pipeline": pipeline.name, "meant" if dry_run else "redriven": 0}, name="pipeline")
        return ExitCode.DONE
    left = unfinished(pipeline)
    if dry_run:
        found = letters.take(_choice(reason, most))
        _some_meant(letters, found, reason)
        meant = found.rows.num_rows
        emit_object(options, {"pipeline": pipeline.name, "meant": meant}, name="pipeline")
        first = "" if left is None else f", after {left.rows:,} of a redrive that was killed"
        options.say(f"{count_of(meant, 'dead letter')} would be put through{first}; nothing was written")
        _say_more(options, found)
        return ExitCode.DONE
    choice = _choice(reason, most)
    letters.check_settling(choice)
    done = Redriven()
    if left is not None:
        options.say(f"finishing a redrive of {count_of(left.rows, 'dead letter')} that was killed")
        _carry_out(options, pipeline, left, done)
    taken = letters.take(choice)
    if left is None:
        _some_meant(letters, taken, reason)
    if left is None or taken.rows.num_rows:
        _carry_out(options, pipeline, stage_redrive(pipeline, taken), done)
    emit_object(options, {"pipeline": pipeline.name, **done.as_object()}, name="pipeline")
    options.say(done.in_words())
    _say_more(options, taken)
    return ExitCode.DONE


@dlq.command("drop")
@file_argument
@choice_options("The largest number of records [all].")
@click.option("--dry-run", is_flag=True, help="Show how many would be affected, without doing it.")
@click.option("--yes", is_flag=True, help="Confirm the deletion; their bytes are lost.")
@set_option
@global_options
def drop(file: str, reason: str | None, most: int | None, dry_run: bool, yes: bool, variables: dict[str, str]) -> None:
    """Drop dead letters of FILE for good."""
    _sure(dry_run, yes, "this drops records for good")
    options = current()
    pipeline = open_pipeline(options, file, variables)
    files, choice = _letters(options, pipeline), _choice(reason, most)
    if files is None:
        emit_object(options, {"pipeline": pipeline.name, "meant" if dry_run else "dropped": 0}, name="pipeline")
        return
    files.check_settling(choice)
    taken = files.take(choice)
    meant = taken.rows.num_rows
    dropped = 0 if dry_run else files.drop(dict(taken.keys))
    while taken.more and not dry_run:
        taken = files.take(_choice(reason, None if most is None else most - meant))
        meant += taken.rows.num_rows
        dropped += files.drop(dict(taken.keys))
    if not dry_run:
        emit_object(options, {"pipeline": pipeline.name, "dropped": dropped, "meant": meant}, name="pipeline")
        return
    emit_object(options, {"pipeline": pipeline.name, "meant": meant}, name="pipeline")
    more = ", and more: this many are read at once" if taken.more else ""
    options.say(f"{count_of(meant, 'dead letter')} would be dropped{more}")


def _letters(options: GlobalOptions, pipeline: Pipeline) -> DeadLetters | None:
    """Return those of a pipeline; None if nothing was rejected yet, which is printed and is no error."""
    from pytubemq.pipelines.operate.dead_letter_place import dead_letters_of

    try:
        return dead_letters_of(pipeline)
    except NotFoundError as error:
        options.say(error.message)
        return None


@dataclass(slots=True)
class Redriven:
    """The results of dead letters that were put through again."""

    letters: int = 0
    rows_out: dict[str, int] = field(default_factory=dict)
    """Rows that they became, by sink."""
    rejected: int = 0
    """Records that were rejected again."""

    def add(self, rows_out: Mapping[str, int], rejected: int) -> None:
        """Add the results of one run over some of them."""
        from pytubemq.pipelines.file.model import DEAD_LETTER

        for sink, rows in rows_out.items():
            if sink != DEAD_LETTER:
                self.rows_out[sink] = self.rows_out.get(sink, 0) + rows
        self.rejected += rejected

    def as_object(self) -> dict[str, Any]:
        """Return all of it for machines."""
        return {"redriven": self.letters, "rows_out": self.rows_out, "rejected_again": self.rejected}

    def in_words(self) -> str:
        """Return all of it in one line."""
        into = [f"{count_of(rows, 'row')} into {sink}" for sink, rows in self.rows_out.items()] or ["no rows"]
        return (
            f"{count_of(self.letters, 'dead letter')} put through: {', '.join(into)}; {self.rejected:,} rejected again"
        )


def _some_meant(letters: DeadLetters, taken: Taken, reason: str | None) -> None:
    """Refuse a reason that no dead letter has."""
    if taken.rows.num_rows or reason is None:
        return
    there = [str(row["reason"]) for row in letters.by_reason()]
    near = suggest(reason, there)
    known = f"there are: {', '.join(there)}" if there else "there are no dead letters"
    raise NotFoundError(
        f"there is no dead letter of the reason {reason}", hint=f"did you mean {near}? {known}" if near else known
    )


def _carry_out(options: GlobalOptions, pipeline: Pipeline, wanted: Redrive, done: Redriven) -> None:
    """Run it, then remove the dead letters.

    Raises:
        TubeError: it was stopped; they all stay, and the next redrive puts the rest of them through.
    """
    from pytubemq.cli.pipeline.commands.run import engine_run
    from pytubemq.pipelines.events import RunStatus
    from pytubemq.pipelines.operate.dead_letter_place import dead_letters_of
    from pytubemq.pipelines.operate.redrive import APART

    try:
        for stage in wanted.stages():
            again = wanted.pipeline(pipeline, stage)
            ran = engine_run(options, again, once=True, progress=Shown.AUTO, apart=APART)
            if ran.result.status is RunStatus.STOPPED:
                raise TubeError(
                    "the redrive was stopped: no dead letter is removed yet",
                    hint="the next redrive finishes it, and gives no sink a row twice that is exactly once",
                )
            done.add(ran.record.rows_out, ran.record.rejected)
    except ConfigError:
        wanted.give_up()
        raise
    done.letters += wanted.finish(dead_letters_of(pipeline))


def _say_more(options: GlobalOptions, taken: Taken) -> None:
    if taken.more:
        options.say("more are left than are redriven at once: the next redrive takes them")


def _choice(reason: str | None, most: int | None) -> Choice:
    from pytubemq.pipelines.operate.dead_letters import Choice

    return Choice(reason, most)


def _sure(dry_run: bool, yes: bool, what: str) -> None:
    if not dry_run and not yes:
        raise click.UsageError(f"{what}: preview it with --dry-run, then confirm with --yes")
