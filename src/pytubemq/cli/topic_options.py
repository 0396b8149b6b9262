"""The options that say how a topic keeps its messages: for one topic, and for the defaults of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from pytubemq.cli.names import message_size, retention
from pytubemq.model.durability import Durability

F = TypeVar("F", bound=Callable[..., Any])

DURABILITIES = (*(one.value for one in Durability), "default")


def settings_options(command: F) -> F:
    """Decorator: `--durability`, `--retention`, `--max-message-size`."""
    decorators = (
        click.option(
            "--durability", type=click.Choice(DURABILITIES),
            help="What an acknowledged message survives: a power cut (disk), a killed Broker (process), neither "
            "(memory); default: as the cluster says.",
        ),
        click.option(
            "--retention", callback=retention, metavar="72h|10GB|72h,10GB|forever",
            help="How long messages are kept, by age (s, m, h, d), by size of a partition (KB, MB, GB, TB) or both; "
            "default: as the cluster says.",
        ),
        click.option(
            "--max-message-size", "max_message_bytes", callback=message_size, metavar="BYTES|100KB|2MB",
            help="The longest message that is taken [the cluster's default, 1 MiB; at most 20 MiB].",
        ),
    )  # fmt: skip
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def given(settings: Mapping[str, str | int | None]) -> dict[str, Any]:
    """What was given of these options, as the JSON API takes it."""
    return {name: value for name, value in settings.items() if value is not None}
