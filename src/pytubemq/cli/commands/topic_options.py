"""The options for topic settings: those of one topic, and the cluster's defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from pytubemq.cli.names import message_size, retention
from pytubemq.model.durability import Durability
from pytubemq.model.limits import DEFAULT_MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES, MIB
from pytubemq.model.policy import KEEP, MAX_AGE_S, RetentionPolicy, keeps_less, parse_delete_policy

if TYPE_CHECKING:
    from pytubemq.cli.api import Api

F = TypeVar("F", bound=Callable[..., Any])

DEFAULTS: Final = ("cluster", "defaults")
"""The path of the cluster's defaults in the JSON API."""
BUILT_IN: Final = f"{MAX_AGE_S // 3600}h"
"""The retention without any setting."""
DURABILITIES = (*(one.value for one in Durability), "default")


def settings_options(command: F) -> F:
    """Decorator: `--durability`, `--retention`, `--max-message-size`."""
    decorators = (
        click.option(
            "--durability", type=click.Choice(DURABILITIES),
            help="What an acknowledged message survives: a power cut (disk), a killed Broker (process), neither "
            "(memory); `default`: the cluster's default.",
        ),
        click.option(
            "--retention", callback=retention, metavar="72h|10GB|72h,10GB|forever",
            help="How long messages are kept, by age (s, m, h, d), by size of a partition (KB, MB, GB, TB) or both; "
            "`default`: the cluster's default.",
        ),
        click.option(
            "--max-message-size", "max_message_bytes", callback=message_size, metavar="BYTES|100KB|2MB",
            help=f"The largest message accepted [the cluster's default, {DEFAULT_MAX_MESSAGE_BYTES // MIB} MiB; "
            f"at most {MAX_MESSAGE_BYTES // MIB} MiB].",
        ),
    )  # fmt: skip
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def yes_option(command: F) -> F:
    """Decorator: `--yes`."""
    return click.option("--yes", is_flag=True, help="Confirm a retention that keeps fewer messages.")(command)


def check_shorter(api: Api, path: tuple[str, ...], body: Mapping[str, Any], *, yes: bool) -> None:
    """Require a confirmation for a change of retention that deletes messages.

    Args:
            api: for the query of the current retention.
            path: the thing that is changed, a topic or the cluster's defaults.
            body: the change.
            yes: True if it is confirmed.

    Raises:
        UsageError: it keeps fewer messages, and is not confirmed.
    """
    wanted = body.get("retention")
    if wanted is None or yes or wanted == "forever":
        return
    before = str(api.get(*path)["retention"])
    after = wanted if wanted != "default" else _fallback(api, path)
    if any(keeps_less(_policy(after), _policy(one)) for one in before.split(" / ")):
        raise click.UsageError(
            f"this permanently deletes messages, for retention {after} keeps fewer than {before}, the one in force: "
            "confirm with --yes"
        )


def _fallback(api: Api, path: tuple[str, ...]) -> str:
    """Return the retention that the word `default` means."""
    if path == DEFAULTS:
        return BUILT_IN
    return str(api.get(*DEFAULTS)["retention"])


def _policy(text: str) -> RetentionPolicy:
    # Not `policy_of_retention`: what a Broker of the original reports may be a number of hours without a unit.
    return parse_delete_policy(KEEP if text == "forever" else f"delete,{text}")


def given(settings: Mapping[str, str | int | None]) -> dict[str, Any]:
    """Return the options that were given, as the JSON API takes them."""
    return {name: value for name, value in settings.items() if value is not None}
