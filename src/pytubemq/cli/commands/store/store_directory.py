"""The directory that a `store` command is given, and what is said of a wrong one.

The invariant: a directory that is no Broker's is a fault of usage (2), so that a script can tell it from damage (1); a
Broker that runs there is told with what can be done about it.
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
            raise error from None  # that a lock is held is what the text says


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
    """The Brokers' data directories that lie in one."""
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
