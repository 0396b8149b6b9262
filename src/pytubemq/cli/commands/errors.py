"""`pytubemq errors`: the table of codes."""

from __future__ import annotations

import click

from pytubemq.cli.explain import Explanation, explanations
from pytubemq.cli.options import current, global_options
from pytubemq.cli.output.output import emit_object, emit_rows
from pytubemq.errors import NotFoundError
from pytubemq.model.suggest import suggest


@click.group()
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
    known = explanations()
    found = known.get(code.lower().removeprefix("tube-"))
    if found is None:
        near = suggest(code, known)
        raise NotFoundError(
            f"no error has the code {code!r}", hint=f"did you mean {near!r}?" if near else "pytubemq errors list"
        )
    return found
