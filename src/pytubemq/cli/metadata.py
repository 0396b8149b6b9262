"""`pytubemq store metadata`: a stopped Master's records."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from pytubemq.cli.options import current, global_options
from pytubemq.cli.output import emit_object
from pytubemq.cli.words import count_of
from pytubemq.errors import DirectoryLockedError, ExitCode, NotFoundError

_FILE: Final = "meta.db"
_DIRECTORY: Final = "master"


@click.command("metadata")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--repair", is_flag=True, help="Set a damaged file aside and keep its sound records.")
@global_options
def metadata_command(directory: Path, repair: bool) -> int:
    """Check a stopped Master's metadata in DIRECTORY, the data directory: what is sound, damaged, lost.

    Nothing is changed without --repair. What a repair cannot keep of topics, `pytubemq cluster adopt` takes over from
    the Brokers that hold them, once the Master runs.
    """
    from pytubemq.storage.disk import OsDisk
    from pytubemq.storage.metastore.repair import examine
    from pytubemq.storage.metastore.repair import repair as repair_metadata

    options = current()
    place = directory / _DIRECTORY if (directory / _DIRECTORY).is_dir() else directory
    if not any(place.glob("meta.*")):  # the lock below would create a file there
        raise NotFoundError(f"no metadata in {place}", hint="give a Master's data directory")
    try:
        lock = OsDisk().lock(place / "lock")
    except DirectoryLockedError as error:
        error.hint = "stop that Master; while it runs, `pytubemq cluster health` says how it is"
        raise error from None
    try:
        found = examine(place / _FILE)
        aside = repair_metadata(place / _FILE, found) if repair and not found.is_sound else []
    finally:
        lock.release()
    shown: dict[str, Any] = {
        "file": str(place / _FILE),
        "state": "sound" if found.is_sound else "repaired" if repair else "damaged",
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
        return ExitCode.DONE
    if not repair:
        options.say(f"Next:  {options.next(f'pytubemq store metadata {directory} --repair')}")
        return ExitCode.FAILED
    options.say(
        f"kept {count_of(len(found.records()), 'record')}\nNext:  start the Master and its Brokers, then  "
        f"{options.next('pytubemq cluster adopt')}"
    )
    return ExitCode.DONE
