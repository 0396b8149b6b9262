"""Groups whose commands are imported when they are used, so that `--help` stays quick."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pytubemq.model.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Mapping


class Lazy(NamedTuple):
    """A command's module, and its line in the list of commands."""

    target: str
    """`module:attribute`"""
    summary: str


class LazyGroup(click.Group):
    """A group that knows its commands by name and summary only."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table, the most needed first."""
        return [*self.lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        entry = self.lazy.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = entry.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list in `--help` without importing anything."""
        rows = [(name, entry.summary) for name, entry in self.lazy.items()]
        rows += [(name, self.commands[name].get_short_help_str(1_000)) for name in super().list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command as click does, and suggest a similar name if there is no such command."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            near = suggest(name, self.list_commands(ctx))
            hint = f" Did you mean {near!r}?" if near else ""
            raise click.UsageError(f"No such command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)
