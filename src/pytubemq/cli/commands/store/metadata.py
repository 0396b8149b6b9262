"""`pytubemq store metadata`: a stopped Master's records."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from pytubemq.cli.options import current, global_options
from pytubemq.cli.output.output import emit_object
from pytubemq.cli.output.words import count_of
from pytubemq.errors import DirectoryLockedError, ExitCode, NotFoundError

_FILE: Final = "meta.db"
_DIRECTORY: Final = "master"


@click.command("metadata")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--repair", is_flag=True, help="Move damaged metadata to damaged-N/ and keep its sound records.")
@click.option("--dry-run", is_flag=True, help="With --repair: only show what would be done.")
@click.option("--yes", is_flag=True, help="With --repair: confirm it.")
@global_options
def metadata_command(directory: Path, repair: bool, dry_run: bool, yes: bool) -> int:
    """Check a stopped Master's metadata in DIRECTORY, the data directory: sound, damaged and lost records.

    Nothing is changed without --repair --yes. What a repair cannot keep of topics, `pytubemq cluster adopt` takes over
    from the Brokers that hold them, once the Master runs.
    """
    from pytubemq.storage.disk.disk import OsDisk
    from pytubemq.storage.metastore.repair import examine
    from pytubemq.storage.metastore.repair import repair as repair_metadata

    if repair and not dry_run and not yes:
        raise click.UsageError("this changes the metadata: preview it with --dry-run, then confirm with --yes")
    if (dry_run or yes) and not repair:
        raise click.UsageError("--dry-run and --yes go with --repair")
    repairs = repair and not dry_run
    options = current()
    place = directory / _DIRECTORY if (directory / _DIRECTORY).is_dir() else directory
    if not any(place.glob("meta.*")):  # the lock below would create a file there
        raise NotFoundError(f"no metadata in {place}", hint="give a Master's data directory")
    try:
        lock = OsDisk().lock(place / "lock")
    except DirectoryLockedError as error:
        error.hint = "stop that Master; while it runs, `pytubemq cluster health` shows its state"
        raise error from None
    try:
        found = examine(place / _FILE)
        aside = repair_metadata(place / _FILE, found) if repairs and not found.is_sound else []
    finally:
        lock.release()
    shown: dict[str, Any] = {
        "file": str(place / _FILE),
        "state": "sound" if found.is_sound else "repaired" if repairs else "damaged",
        "topics": len(found.metadata.topics),
        "places": len(found.metadata.deploys),
        "brokers": len(found.metadata.brokers),
        "groups": len(found.metadata.groups),
        "consume_rules": len(found.metadata.consumes),
        "damaged": list(found.damaged),
        "lost_changes": found.lost_changes,
        "aside": [str(file) for file in aside],
    }
    emit_object(options, shown, name="state")
    if found.is_sound:
        if repair:
            options.say("nothing to repair")
        return ExitCode.DONE
    kept = count_of(len(found.records()), "record")
    if not repairs:
        if repair:
            options.say(f"would rename the files and keep {kept}; nothing was changed")
        again = f"pytubemq store metadata {directory} --repair {'--yes' if repair else '--dry-run'}"
        options.say(f"Next:  {options.next(again)}")
        return ExitCode.FAILED
    after = f"then  {options.next('pytubemq cluster adopt')}" if found.lacks_topics else "no topic was lost"
    options.say(f"kept {kept}\nNext:  start the Master and its Brokers{', ' if found.lacks_topics else '; '}{after}")
    return ExitCode.DONE
