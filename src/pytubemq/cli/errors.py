"""`pytubemq errors`: the table of codes."""

from __future__ import annotations

import difflib

import click

from pytubemq.cli.explain import explanations
from pytubemq.cli.options import current, global_options
from pytubemq.cli.output import emit_object, emit_rows
from pytubemq.errors import NotFoundError


@click.group()
def errors() -> None:
    """Meaning, cause and remedy of every error code."""


@errors.command("list")
@global_options
def list_errors() -> None:
    """All codes: the protocol's numbers, and names for what never was on the wire."""
    rows = [entry._asdict() for entry in explanations().values()]
    emit_rows(current(), rows, ["code", "name", "meaning", "retriable", "exit"], name="code")


@errors.command("show")
@click.argument("code")
@global_options
def show_error(code: str) -> None:
    """One code, with or without `TUBE-` before it."""
    known = explanations()
    found = known.get(code.lower().removeprefix("tube-"))
    if found is None:
        near = difflib.get_close_matches(code.lower(), known, 1)
        raise NotFoundError(
            f"no error has the code {code!r}", hint=f"did you mean {near[0]!r}?" if near else "pytubemq errors list"
        )
    emit_object(current(), found._asdict(), name="code")
