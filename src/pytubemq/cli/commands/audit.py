"""`pytubemq audit`: over the JSON API."""

from __future__ import annotations

import contextlib
import json
import time
from datetime import datetime

import click

from pytubemq.cli.command_group import CommandGroup
from pytubemq.cli.options import current, global_options, http_option
from pytubemq.cli.output.output import emit_rows
from pytubemq.cli.target import open_api
from pytubemq.core.reset_target import ResetTo, parse_reset_target, utc, with_zone
from pytubemq.errors import BadRequestError

COLUMNS = ["time", "user", "host", "action", "target", "outcome", "before", "after"]
_MOST = 1_000


@click.group(cls=CommandGroup)
def audit() -> None:
    """Show who changed what, from where, and when."""


def moment(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return a time, or a time ago, in UTC; a time without a zone is one of this machine's clock."""
    if value is None:
        return None
    text = value.strip()
    with contextlib.suppress(ValueError):  # a time ago
        text = with_zone(datetime.fromisoformat(text)).isoformat()
    with contextlib.suppress(BadRequestError):
        target = parse_reset_target(text, now_ms=time.time_ns() // 1_000_000)
        if target.to is ResetTo.TIME and target.time_ms is not None:
            return utc(target.time_ms)
    raise click.BadParameter(
        f"not a time: {value[:80]!r}; write one as 2026-01-31T12:00:00, or how long ago it is: -10m (s, m, h or d)",
        context,
        parameter,
    )


@audit.command("list")
@click.option("--user", metavar="NAME", help="Only what this user did.")
@click.option("--target", metavar="NAME", help="Only what concerns this: a topic, a group, a user.")
@click.option("--since", callback=moment, metavar="TIME", help="Only what is not older: a time, or -10m.")
@click.option(
    "--limit", type=click.IntRange(1, _MOST), default=100, show_default=True, help="The largest number of entries."
)
@http_option
@global_options
def list_entries(user: str | None, target: str | None, since: str | None, limit: int, http: str | None) -> None:
    """List changes and refused sign-ins, the newest first, with the changed fields before and after."""
    options = current()
    given = {"user": user, "target": target, "since": since, "limit": str(limit)}
    query = {name: value for name, value in given.items() if value is not None}
    rows = open_api(options, http).rows("audit", query=query)
    if options.output in (None, "table", "csv"):
        for row in rows:
            row["before"], row["after"] = (_brief(row[name]) for name in ("before", "after"))
    emit_rows(options, rows, COLUMNS, name="id")


def _brief(state: dict[str, object]) -> str:
    return json.dumps(state, ensure_ascii=False) if state else ""
