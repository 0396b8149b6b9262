"""Groups of commands, whose list in `--help` can be read whole."""

from __future__ import annotations

from typing import Final

import click

_NO_LIMIT: Final = 1_000
"""Characters of a command's first sentence: more than any has, so that it is wrapped and never cut."""


class CommandGroup(click.Group):
    """A group that lists each of its commands with the whole first sentence of its help."""

    group_class = type
    """Groups inside are of the same class."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list in `--help`."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, command.get_short_help_str(_NO_LIMIT)) for name, command in commands if command is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
