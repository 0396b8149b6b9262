"""`pytubemq errors`: the table of codes."""

from __future__ import annotations

import click

from pytubemq.cli.command_group import CommandGroup
from pytubemq.cli.explain import Explanation, explanations
from pytubemq.cli.options import current, global_options
from pytubemq.cli.output.output import emit_object, emit_rows
from pytubemq.errors import NotFoundError
from pytubemq.model.suggest import suggest


class _ErrorsGroup(CommandGroup):
    """The commands; a code in the place of one is led to `show`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands and (args[0].isdecimal() or _find(args[0]) is not None):
            raise click.UsageError(f"No such command {args[0]!r}. Did you mean 'show {args[0]}'?", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_ErrorsGroup)
def errors() -> None:
    """Explain error codes: meaning, cause and remedy."""


@errors.command("list")
@global_options
def list_errors() -> None:
    """List all codes: the protocol's numbers, and names for errors outside of the protocol."""
    rows = [entry._asdict() for entry in explanations().values()]
    emit_rows(current(), rows, ["code", "name", "meaning", "retriable", "exit"], name="code")


@errors.command("show")
@click.argument("codes", nargs=-1, required=True, metavar="CODE...")
@global_options
def show_errors(codes: tuple[str, ...]) -> None:
    """Explain one or more codes, with or without the prefix `TUBE-`."""
    options = current()
    rows = [_found(code)._asdict() for code in codes]
    if len(rows) > 1 and options.output not in {None, "table"}:
        emit_rows(options, rows, list(rows[0]), name="code")
        return
    for number, row in enumerate(rows):
        if number:
            click.echo()
        emit_object(options, row, name="code")


def _found(code: str) -> Explanation:
    found = _find(code)
    if found is None:
        near = suggest(code, explanations())
        raise NotFoundError(
            f"no error has the code {code!r}", hint=f"did you mean {near!r}?" if near else "pytubemq errors list"
        )
    return found


def _find(code: str) -> Explanation | None:
    return explanations().get(code.lower().removeprefix("tube-"))
