"""`pytubemq store`: a Broker's data directory without its Broker."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pytubemq.cli.command_group import CommandGroup
from pytubemq.cli.commands.store.metadata import metadata_command
from pytubemq.cli.commands.store.store_directory import DIRECTORY, StoreCommand, broker_directory
from pytubemq.cli.names import optional_topic_name, topic_name, topic_names
from pytubemq.cli.options import GlobalOptions, current, global_options
from pytubemq.cli.output.output import emit_object, emit_rows
from pytubemq.cli.output.words import count_of
from pytubemq.core.reset_target import time_target, utc
from pytubemq.errors import Code, ExitCode, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytubemq.storage.tools.check.findings import Finding
    from pytubemq.storage.tools.export import ExportBound
    from pytubemq.storage.tools.inspect import Inspected
    from pytubemq.storage.tools.repair_steps.side_files import Decoders

FINDINGS = ["severity", "file", "byte", "bytes", "topic", "partition", "from", "to", "messages", "what"]
RECORDS = ["kind", "first_offset", "messages", "time", "bytes", "key_code", "sound", "body"]
SECTIONS = {
    "journals": ["file", "bytes", "blocks", "messages", "first_sequence", "last_sequence", "replayed_from",
                 "bad_bytes"],
    "partitions": ["topic", "partition", "first_offset", "end_offset", "messages", "bytes", "first_time", "last_time",
                   "segments", "problem"],
    "positions": ["group", "topic", "partition", "offset", "behind"],
    "producers": ["topic", "partition", "producer", "epoch", "last_sequence", "gaps", "floor"],
    "fences": ["topic", "partition", "from", "to", "messages", "reason"],
    "kept": ["name", "what"],
}  # fmt: skip


@click.group(cls=CommandGroup)
def store() -> None:
    """Inspect, verify, repair, export and import a Broker's data directory; check and repair a Master's.

    Exit codes: 0 fine, 1 damage found or something failed, 2 usage, 3 there is no such topic or partition, 4 a Broker
    runs there.
    """


store.add_command(metadata_command)


def topic_option(command: Any) -> Any:
    """Decorator: `--topic`."""
    return click.option("--topic", callback=optional_topic_name, help="Only this topic.")(command)


def _place_of(context: click.Context, parameter: click.Parameter, value: str | None) -> ExportBound | None:
    """Callback of a parameter that is an offset or a time."""
    from pytubemq.storage.tools.export import ExportBound

    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return ExportBound(offset=int(value))
    try:
        return ExportBound(time_ms=time_target(datetime.fromisoformat(value)).time_ms)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{value!r} is neither an offset nor a time as 2026-01-31T12:00:00Z", context, parameter
        ) from None


@store.command("inspect")
@click.argument("directory", type=DIRECTORY, callback=broker_directory)
@topic_option
@click.option("--partition", "partition_id", type=click.IntRange(min=0), help="Only this partition.")
@click.option("--records", type=click.IntRange(min=1), metavar="N",
              help="Show N records of one partition instead; needs --topic and --partition.")  # fmt: skip
@click.option("--from", "start", type=click.IntRange(min=0), metavar="OFFSET", help="With --records: where to begin.")
@global_options
def inspect_command(
    directory: Path, topic: str | None, partition_id: int | None, records: int | None, start: int | None
) -> int:
    """Show the contents of DIRECTORY: journal, checkpoint, partitions, positions, producers, losses.

    Nothing is changed; a Broker may run there meanwhile.
    """
    from pytubemq.storage.tools.inspect import inspect, inspect_records

    options = current()
    if records is not None:
        if topic is None or partition_id is None:
            raise click.UsageError("--records needs --topic and --partition")
        rows = [_timed(row) for row in inspect_records(directory, topic, partition_id, start=start, count=records)]
        emit_rows(options, rows, RECORDS, name="first_offset")
        return ExitCode.DONE if all(row["sound"] for row in rows) else ExitCode.FAILED
    if start is not None:
        raise click.UsageError("--from belongs to --records")
    found = inspect(directory, topic=topic, partition_id=partition_id)
    if (topic, partition_id) != (None, None) and found.problem is None and not (found.partitions or found.fences):
        raise _not_there(directory, topic, partition_id)
    _emit_inspected(options, found, directory)
    if found.problem is not None:
        options.say(f"a Broker would not open it: {found.problem}\nNext:  {options.next('pytubemq store verify')} ...")
    return ExitCode.DONE if found.problem is None and not any(row["problem"] for row in found.partitions) else (
        ExitCode.FAILED
    )  # fmt: skip


def _not_there(directory: Path, topic: str | None, partition_id: int | None) -> NotFoundError:
    if partition_id is None:
        what = f"topic {topic!r} does not exist"
    else:
        what = f"partition {partition_id} {'' if topic is None else f'of topic {topic!r} '}does not exist"
    return NotFoundError(
        f"{what} in {directory}",
        hint=f"pytubemq store inspect {directory}  shows its contents",
        code=Code.NOT_FOUND,
    )


def _emit_inspected(options: GlobalOptions, found: Inspected, directory: Path) -> None:
    whole = asdict(found)
    whole["directory"] = str(directory)
    whole["partitions"] = [_timed(row) for row in found.partitions]
    if options.output not in (None, "table"):
        emit_object(options, whole, name="directory")
        return
    shown: dict[str, Any] = {"directory": str(directory), "version": found.version, "problem": found.problem}
    shown |= {f"checkpoint {key}": value for key, value in (found.checkpoint or {"made": False}).items()}
    for section, columns in SECTIONS.items():
        rows = whole[section]
        shown[section] = [{column: row.get(column) for column in columns} for row in rows] or None
    emit_object(options, shown, name="directory")


def _beside() -> Decoders:
    """Return the decoders of the files that a Broker keeps beside its store."""
    from pytubemq.broker.members import reset_history
    from pytubemq.broker.upkeep import topic_file

    return {topic_file.FILE: topic_file.decode, reset_history.FILE: reset_history.decode}


@store.command("verify", cls=StoreCommand)
@click.argument("directory", type=DIRECTORY, callback=broker_directory)
@topic_option
@global_options
def verify_command(directory: Path, topic: str | None) -> int:
    """Read and check everything in DIRECTORY; ends with 1 if anything is damaged. Changes nothing."""
    from pytubemq.storage.tools.check.findings import Severity
    from pytubemq.storage.tools.verify import verify

    options = current()
    with _bar(options, "checked") as progress:
        found = verify(directory, topic=topic, progress=progress, beside=_beside())
    if topic is not None and not found.partitions and all(finding.topic != topic for finding in found.findings):
        raise _not_there(directory, topic, None)
    emit_rows(options, [finding_row(finding, directory) for finding in found.findings], FINDINGS, name="file")
    damaged, fenced = found.count(Severity.DAMAGE), found.count(Severity.FENCED)
    options.say(
        f"{count_of(found.partitions, 'partition')}, {count_of(found.journal_files, 'journal file')}, "
        f"{count_of(found.read_bytes, 'byte')} read: {count_of(damaged, 'damaged place') if damaged else 'no damage'}, "
        f"{fenced or 'no'} known loss{'' if fenced == 1 else 'es'}"
    )
    if found.unlisted:
        options.say(f"not listed: {count_of(found.unlisted, 'more finding')}")
    if not found.is_sound:
        options.say(f"Next:  {options.next('pytubemq store repair')} {directory} --dry-run")
    return ExitCode.DONE if found.is_sound else ExitCode.FAILED


@store.command("repair", cls=StoreCommand)
@click.argument("directory", type=DIRECTORY, callback=broker_directory)
@click.option("--dry-run", is_flag=True, help="Show what would be done, without changing anything.")
@click.option("--yes", is_flag=True, help="Confirm the repair.")
@global_options
def repair_command(directory: Path, dry_run: bool, yes: bool) -> int:
    """Repair DIRECTORY so that a Broker can open it: keep data that passes its checks, fence off the lost parts.

    Files are copied to DIRECTORY/repair-<time>/ before they are changed. Ends with 0 when it is sound afterwards.
    """
    from pytubemq.storage.tools.repair import plan, repair

    if not dry_run and not yes:
        raise click.UsageError("this changes the store: preview it with --dry-run, then confirm with --yes")
    options = current()
    copies = directory / f"repair-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    with _bar(options, "checked") as progress:
        if dry_run:
            found = plan(directory, progress=progress, beside=_beside())
        else:
            found = repair(directory, copies, progress=progress, beside=_beside())
    lost = [
        {"topic": lost.topic, "partition": lost.partition_id, "from": lost.from_offset, "to": lost.to_offset,
         "messages": lost.messages, "reason": lost.reason.name.lower()}
        for lost in found.lost_ranges
    ]  # fmt: skip
    after = found.after or found.before
    whole = {
        "directory": str(directory), "dry_run": dry_run, "done": found.done, "lost": lost,
        "lost_records": found.lost_records, "sound": after.is_sound,
        "copies": None if dry_run or not found.done else str(copies),
        "report": None if found.report is None else str(found.report),
        "changed": [str(path.relative_to(directory)) for path in found.changed],
    }  # fmt: skip
    if options.output in (None, "table"):
        whole["done"] = [{"step": at, "what": line} for at, line in enumerate(found.done, 1)] or None
    emit_object(options, whole, name="directory")
    if not found.done:
        options.say("nothing to repair")
    elif dry_run:
        options.say(f"nothing was changed\nNext:  {options.next('pytubemq store repair')} {directory} --yes")
    else:
        options.say(f"repaired; copies of the original files are in {copies}, a report of the losses is {found.report}")
        if found.lost_records is not None:
            options.say("the Broker's health shows these losses until that file is removed")
    return ExitCode.DONE if after.is_sound else ExitCode.FAILED


@store.command("export", cls=StoreCommand)
@click.argument("directory", type=DIRECTORY, callback=broker_directory)
@click.option("--topic", required=True, callback=topic_name, help="The topic to export.")
@click.option("--partition", "partition_id", type=click.IntRange(min=0), help="Only this partition.")
@click.option("--from", "start", callback=_place_of, metavar="OFFSET|TIME",
              help="Where to begin: an offset, or a time, as 2026-01-31T12:00:00Z [the first message].")  # fmt: skip
@click.option("--to", "end", callback=_place_of, metavar="OFFSET|TIME",
              help="Where to end, exclusive [after the last message].")  # fmt: skip
@click.option("--format", "form", type=click.Choice(["jsonl", "raw"]), default="jsonl", show_default=True,
              help="One JSON object per line, or bodies only, each followed by a line feed.")  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="A file [standard output].")
@global_options
def export_command(
    directory: Path,
    topic: str,
    partition_id: int | None,
    start: ExportBound | None,
    end: ExportBound | None,
    form: str,
    out: Path | None,
) -> int:
    """Write a topic's messages, checked and in order; ends with 1 if some are lost."""
    from pytubemq.storage.tools.export import ExportCount, export

    options = current()
    _check_order(start, end)
    count = ExportCount()
    messages = export(directory, topic, partition_id=partition_id, start=start, end=end, count=count)
    with _bar(options, "exported") as progress, click.open_file(str(out or "-"), "wb") as target:
        for message in messages:
            if form == "raw":
                target.write(message.body + b"\n")
            else:
                target.write(json.dumps(message.as_json(), ensure_ascii=False).encode() + b"\n")
            if progress is not None and not count.messages % 1000:
                progress(count.messages, count.wanted)
    options.say(f"exported {count_of(count.messages, 'message')}; {count.lost or 'none'} lost")
    return ExitCode.FAILED if count.lost else ExitCode.DONE


def _check_order(start: ExportBound | None, end: ExportBound | None) -> None:
    """Refuse a range that ends before it begins; an offset and a time cannot be compared.

    Raises:
        UsageError: it does.
    """
    if start is None or end is None:
        return
    for begin, until in ((start.offset, end.offset), (start.time_ms, end.time_ms)):
        if begin is not None and until is not None and begin > until:
            raise click.UsageError("--from is beyond --to: the range is empty")


def finding_row(finding: Finding, directory: Path) -> dict[str, Any]:
    """Return a finding as a row of a listing."""
    path = finding.path
    return {
        "severity": finding.severity.value,
        "file": str(path.relative_to(directory)) if path.is_relative_to(directory) else str(path),
        "byte": finding.position,
        "bytes": finding.size_bytes,
        "topic": finding.topic,
        "partition": finding.partition_id,
        "from": finding.from_offset,
        "to": finding.to_offset,
        "messages": finding.messages or None,
        "what": finding.what,
    }


@store.command("import", cls=StoreCommand)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--from", "source", type=DIRECTORY, required=True, metavar="JAVA_DIR",
              help="The stopped Java Broker's primaryPath, with <topic>-<store> directories in it.")  # fmt: skip
@click.option("--offsets", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="PATH",
              help="The file of group offsets [JAVA_DIR/offsetDir/offsets.meta].")  # fmt: skip
@click.option("--topic", "topics", multiple=True, callback=topic_names, help="Only this topic; may be repeated.")
@global_options
def import_command(directory: Path, source: Path, offsets: Path | None, topics: tuple[str, ...]) -> int:
    """Import a stopped Java Broker's messages and group offsets into DIRECTORY, which may be new.

    All or nothing: a topic that exists already is never changed. Ends with 1 if damaged messages were left out.
    """
    from pytubemq.storage.java.java_import import import_java

    options = current()
    with _bar(options, "imported") as progress:
        found = import_java(directory, source, offsets=offsets, topics=topics, progress=progress)
    rows = [
        _timed(
            {"topic": one.topic, "partition": one.partition_id, "messages": one.messages, "bytes": one.size_bytes,
             "first_time_ms": one.first_time_ms, "last_time_ms": one.last_time_ms, "times_lifted": one.times_lifted}
        )
        for one in found.partitions
    ]  # fmt: skip
    commands = list(create_commands(options, found.topics()))
    if options.output in (None, "table"):
        shown: dict[str, Any] = {"directory": str(directory), "messages": found.messages, "partitions": rows}
        shown["positions"] = [one._asdict() for one in found.positions] or None
        shown["bad"] = [one._asdict() | {"path": str(one.path)} for one in found.bad] or None
        shown["left_out"] = [{"topic": name, "why": why} for name, why in found.left_out.items()] or None
        emit_object(options, shown, name="directory")
    else:
        whole = {
            "directory": str(directory), "messages": found.messages, "partitions": rows,
            "positions": [one._asdict() for one in found.positions],
            "bad": [one._asdict() | {"path": str(one.path)} for one in found.bad], "bad_places": found.bad_places,
            "left_out": found.left_out,
            "positions_left_out": found.positions_left_out, "create": commands,
        }  # fmt: skip
        emit_object(options, whole, name="directory")
    options.say(
        f"imported {count_of(found.messages, 'message')}; left out {count_of(found.bad_places, 'damaged place')}"
    )
    options.say("Next:  create the topics at the Master before the Broker starts:\n" + "\n".join(commands))
    return ExitCode.FAILED if found.bad else ExitCode.DONE


def create_commands(options: GlobalOptions, topics: dict[str, tuple[int, int]]) -> Iterator[str]:
    """Yield the commands that create the topics; one with several stores needs the older API, which supports that."""
    for name, (partitions, stores) in sorted(topics.items()):
        if stores == 1:
            yield f"  {options.next('pytubemq topic create')} {name} --partitions {partitions}"
        else:
            yield (
                "  curl -fsS $MASTER_PAGE/webapi.htm -d method=admin_add_new_topic_record -d confModAuthToken=$TOKEN"
                f" -d createUser=move -d brokerId=$BROKER_ID -d topicName={name} -d numPartitions={partitions}"
                f" -d numTopicStores={stores}"
            )


def _timed(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with times as text instead of milliseconds."""
    times = {
        key.removesuffix("_ms"): None if value is None else utc(value)
        for key, value in row.items()
        if key.endswith("time_ms")
    }
    return {key.removesuffix("_ms"): times.get(key.removesuffix("_ms"), value) for key, value in row.items()}


@contextmanager
def _bar(options: GlobalOptions, what: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar of bytes on a terminal."""
    if not options.bars:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, no_color=not options.colour)
    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what)
        yield lambda done, total: bar.update(task, completed=done, total=total)
