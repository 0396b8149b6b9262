"""Names and other words on the command line, refused before anybody is asked: a wrong one is a fault of usage."""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import TYPE_CHECKING

import click

from pytubemq.core.reset_target import parse_reset_target, with_zone
from pytubemq.errors import BadRequestError, MessageError
from pytubemq.model.ids import check_group, check_topic
from pytubemq.model.policy import policy_of_retention, retention_of_policy

if TYPE_CHECKING:
    from collections.abc import Callable


def topic_name(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Callback of a parameter that names a topic."""
    return _checked(check_topic, value, context, parameter)


def group_name(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Callback of a parameter that names a group, or is left out."""
    return None if value is None else _checked(check_group, value, context, parameter)


def retention(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Callback of a parameter that says how long messages are kept; becomes its short form, or `default`."""
    if value is None or value.strip().lower() == "default":
        return None if value is None else "default"
    try:
        return retention_of_policy(policy_of_retention(value))
    except BadRequestError as error:
        raise click.BadParameter(f"{error.message}; {error.hint}", context, parameter) from error


def reset_place(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Callback of a parameter that says where a group is to go; a time without a zone gets the one of this machine."""
    with contextlib.suppress(ValueError):  # another kind of place
        value = with_zone(datetime.fromisoformat(value.strip())).isoformat()
    try:
        parse_reset_target(value, now_ms=0)
    except BadRequestError as error:
        raise click.BadParameter(f"{error.message}; {error.hint}", context, parameter) from error
    return value


def _checked(check: Callable[[str], str], value: str, context: click.Context, parameter: click.Parameter) -> str:
    try:
        return check(value)
    except MessageError as error:
        raise click.BadParameter(f"{error.message}; {error.hint}", context, parameter) from error
