"""The directory argument of a `store` command, and the errors for a wrong one.

The invariant: a directory that is not a Broker's is a usage error (2), so that a script can distinguish it from damage
(1); the error for a running Broker names the way out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from pytubemq.errors import DirectoryLockedError, StorageError

DIRECTORY: Final = click.Path(exists=True, file_okay=False, path_type=Path)
_SHOWN: Final = 8


class StoreCommand(click.Command):
    """A command on the data of a Broker that must not run meanwhile."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run it."""
        try:
            return super().invoke(ctx)
        except DirectoryLockedError as error:
            directory = ctx.params["directory"]
            error.hint = f"stop that Broker; while it runs, only `pytubemq store inspect {directory}` may read it"
            raise error from None  # the text already says that a lock is held


def broker_directory(context: click.Context, parameter: click.Parameter, value: Path) -> Path:
    """Callback of a parameter that is a Broker's own data directory."""
    from pytubemq.storage.tools.read.store_access import check_store

    try:
        check_store(value)
    except StorageError as error:
        below = stores_in(value)
        more = f" and {len(below) - _SHOWN} more" if len(below) > _SHOWN else ""
        hint = f"in it are: {', '.join(map(str, below[:_SHOWN]))}{more}" if below else error.hint
        raise click.BadParameter(f"{error.message}; {hint}", context, parameter) from error
    return value


def stores_in(directory: Path) -> list[Path]:
    """Return the Brokers' data directories in one directory."""
    from pytubemq.storage.tools.read.store_access import check_store

    found = []
    try:
        for path in sorted(directory.iterdir()):
            if path.is_dir():
                try:
                    check_store(path)
                except StorageError:
                    continue
                found.append(path)
    except OSError:  # not ours to look into
        return []
    return found
