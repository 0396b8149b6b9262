"""The options and the output of `pytubemq broker story` and `pytubemq group story`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from pytubemq.cli.commands.audit import moment
from pytubemq.cli.output.output import emit_rows

if TYPE_CHECKING:
    from pytubemq.cli.api import Api
    from pytubemq.cli.options import GlobalOptions

F = TypeVar("F", bound=Callable[..., Any])

COLUMNS: Final = ["time", "event", "text", "why", "user"]
_MOST: Final = 1_000


def story_options(command: F) -> F:
    """Decorator: `--since`, `--limit`."""
    command = click.option(
        "--limit", type=click.IntRange(1, _MOST), default=100, show_default=True, help="The largest number of entries."
    )(command)
    return click.option(
        "--since", callback=moment, metavar="TIME", help="Only what is not older: a time, or -10m."
    )(command)  # fmt: skip


def show_story(options: GlobalOptions, api: Api, *path: str, since: str | None, limit: int) -> bool:
    """Print a story; return True if it has entries."""
    query = {"limit": str(limit), **({} if since is None else {"since": since})}
    found = api.get(*path, "story", query=query)
    emit_rows(options, found["entries"], COLUMNS, name="event")
    if not found["entries"]:
        options.say(
            f"nothing has happened since the Master's start ({found['since']}), before which it remembers nothing"
        )
    return bool(found["entries"])
