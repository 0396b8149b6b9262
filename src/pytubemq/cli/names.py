"""Names and other values on the command line, checked before any request: a wrong one is a usage error."""

from __future__ import annotations

import contextlib
import getpass
import re
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from pytubemq.cli.api import Api, with_scheme
from pytubemq.cli.options import user_options
from pytubemq.core.reset_target import parse_reset_target, with_zone
from pytubemq.errors import BadRequestError, ConfigError, FormatError, MessageError
from pytubemq.model.limits import KIB, MAX_MESSAGE_BYTES, MAX_USER_CHARS, MIB
from pytubemq.model.names import MAX_PORT, check_group, check_topic
from pytubemq.model.policy import policy_of_retention, retention_of_policy, size_text

if TYPE_CHECKING:
    from typing import TextIO

F = TypeVar("F", bound=Callable[..., Any])

_PROFILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NUMERAL: Final = re.compile(r"[0-9]{1,20}")
_PARTITION: Final = re.compile(r"([0-9]{1,10}:([^:]+:)?)?[0-9]{1,10}")
_SIZE: Final = re.compile(r"([0-9]{1,12}) ?(B|KB|MB|)")
_UNITS: Final = {"": 1, "B": 1, "KB": KIB, "MB": MIB}
"""The units of a size, as in a retention: powers of 1024."""


def this_user() -> str:
    """Return the name of the person at this machine, for the records of a change."""
    try:
        return getpass.getuser()[:MAX_USER_CHARS]
    except (KeyError, OSError):  # a number without a name, as in some containers
        return "cli"


def topic_name(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check a parameter that names a topic."""
    return _checked(check_topic, value, context, parameter)


def optional_topic_name(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Check a parameter that names a topic, or is left out."""
    return None if value is None else topic_name(context, parameter, value)


def topic_names(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Check a parameter that names topics."""
    return tuple(topic_name(context, parameter, name) for name in value)


def read_topic_names(file: TextIO | None) -> list[str]:
    """Return the names in a file, one a line; blank lines and text after # are skipped.

    Raises:
        UsageError: a line is not a topic name; the error names file and line.
    """
    found = []
    for number, line in enumerate(file or (), 1):
        name = line.partition("#")[0].strip()
        if name:
            try:
                found.append(check_topic(name))
            except MessageError as error:
                where = getattr(file, "name", "the file")
                raise click.UsageError(f"{where}, line {number}: {error.message}; {error.hint}") from error
    return found


def group_name(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Check a parameter that names a group, or is left out."""
    return None if value is None else _checked(check_group, value, context, parameter)


def filter_item(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Check a parameter that is a message type, or is left out."""
    if value is not None and not value.strip():
        raise click.BadParameter("it is blank; leave the option out for messages without a type", context, parameter)
    return value


def filter_items(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Check a parameter that has several message types."""
    for item in value:
        filter_item(context, parameter, item)
    return value


def retention(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Check a retention and return its short form, or `default`."""
    if value is None or value.strip().lower() == "default":
        return None if value is None else "default"
    try:
        return retention_of_policy(policy_of_retention(value))
    except BadRequestError as error:
        raise click.BadParameter(f"{error.message}; {error.hint}", context, parameter) from error


def reset_place(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check the target of a reset; a time without a zone gets the one of this machine."""
    with contextlib.suppress(ValueError):  # another kind of target
        value = with_zone(datetime.fromisoformat(value.strip())).isoformat()
    try:
        parse_reset_target(value, now_ms=0)
    except BadRequestError as error:
        raise click.BadParameter(f"{error.message}; {error.hint}", context, parameter) from error
    return value


def profile_name(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check a parameter that names a new profile."""
    if not _PROFILE.fullmatch(value):
        raise click.BadParameter(
            f"not a name for a profile: {value[:80]!r}; use up to 64 letters, digits, and . _ -, beginning with a "
            "letter or a digit",
            context,
            parameter,
        )
    return value


def masters_address(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check a parameter with the Masters' addresses."""
    from pytubemq.net.client.masters import parse_masters

    try:
        for address in parse_masters(value):
            if not address.port:
                raise ConfigError(f"not an address: {str(address)!r}", hint="nothing listens on port 0")
    except (ConfigError, FormatError) as error:
        ports = (item.strip().rpartition(":")[2] for item in value.split(","))
        large = next((port for port in ports if _NUMERAL.fullmatch(port) and int(port) > MAX_PORT), None)
        why = error.hint if large is None else f"the port {large} is out of range: it is from 1 to {MAX_PORT}"
        raise click.BadParameter(f"{error.message}; {why}", context, parameter) from error
    return value


def optional_masters_address(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Check a parameter with the Masters' addresses, or left out."""
    return None if value is None else masters_address(context, parameter, value)


def master_option(command: F) -> F:
    """Decorator: the options for the Masters' addresses and the user, which otherwise come from the profile."""
    return click.option(
        "--master", callback=optional_masters_address, metavar="HOST:PORT[,...]",
        help="The Masters [of the profile, or 127.0.0.1:8715].",
    )(user_options(command))  # fmt: skip


def partition_names(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Check a parameter that names partitions; whether they exist is for the cluster to say."""
    for name in value:
        if not _PARTITION.fullmatch(name.strip()):
            text = (
                f"not a partition: {name[:80]!r}; write its number (0), or with its Broker before it (1:0 or 1:topic:0)"
            )
            raise click.BadParameter(text, context, parameter)
    return value


def api_url(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check a parameter with the JSON API's URL."""
    try:
        Api(with_scheme(value), timeout_s=1)
    except ConfigError as error:
        raise click.BadParameter(f"{error.message}; {error.hint}", context, parameter) from error
    return value


def message_size(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Return the size of the longest message in bytes, from `1500000`, `100KB` or `2MB`."""
    if value is None:
        return None
    found = _SIZE.fullmatch(value.strip().upper())
    if found is None:
        text = f"{value[:80]!r} is not a number of bytes; write one as 1500000, 100KB or 2MB"
        raise click.BadParameter(text, context, parameter)
    size_bytes = int(found[1]) * _UNITS[found[2]]
    if not 1 <= size_bytes <= MAX_MESSAGE_BYTES:
        text = f"{value[:80]!r} is not from 1 to {MAX_MESSAGE_BYTES} bytes ({size_text(MAX_MESSAGE_BYTES)})"
        raise click.BadParameter(text, context, parameter)
    return size_bytes


def _checked(check: Callable[[str], str], value: str, context: click.Context, parameter: click.Parameter) -> str:
    try:
        return check(value)
    except MessageError as error:
        raise click.BadParameter(f"{error.message}; {error.hint}", context, parameter) from error
