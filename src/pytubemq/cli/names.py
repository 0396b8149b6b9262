"""Names on the command line, refused before anybody is asked: a name that cannot be one is a fault of usage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pytubemq.errors import MessageError
from pytubemq.model.ids import check_group, check_topic

if TYPE_CHECKING:
    from collections.abc import Callable


def topic_name(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Callback of a parameter that names a topic."""
    return _checked(check_topic, value, context, parameter)


def group_name(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Callback of a parameter that names a group, or is left out."""
    return None if value is None else _checked(check_group, value, context, parameter)


def _checked(check: Callable[[str], str], value: str, context: click.Context, parameter: click.Parameter) -> str:
    try:
        return check(value)
    except MessageError as error:
        raise click.BadParameter(f"{error.message}; {error.hint}", context, parameter) from error
