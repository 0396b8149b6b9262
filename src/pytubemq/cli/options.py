"""The options that every command has, before or after its name.

The invariant: where an option is given twice, the one after the command's name counts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pytubemq.model.names import escaped_text

if TYPE_CHECKING:
    from pytubemq.server.profiles import Profile

F = TypeVar("F", bound=Callable[..., Any])

OUTPUTS = ("table", "json", "jsonl", "csv", "name")


@dataclass(slots=True)
class GlobalOptions:
    """The options that all commands have."""

    profile: str | None = None
    output: str | None = None
    quiet: bool = False
    verbose: bool = False
    no_color: bool = False
    timeout_s: float = 10.0
    user: str | None = None
    secret_file: str | None = None
    chosen: Profile | None = None
    """The profile, or `LOCAL`, that the cluster's address was taken from; None if an option named it."""

    @property
    def colour(self) -> bool:
        """True if standard error may be coloured."""
        environ = os.environ
        plain = self.no_color or environ.get("NO_COLOR") or environ.get("CI") or environ.get("TERM") == "dumb"
        return not plain and sys.stderr.isatty()

    @property
    def bars(self) -> bool:
        """True if a progress bar may be drawn: on a capable terminal, and without -q."""
        environ = os.environ
        return sys.stderr.isatty() and not (self.quiet or environ.get("CI") or environ.get("TERM") == "dumb")

    def say(self, text: str) -> None:
        """Print a message on standard error; silent with -q."""
        if not self.quiet:
            click.echo(escaped_text(text), err=True)

    def next(self, command: str) -> str:
        """Return a command for the user to type, as it works where they are; `command` begins with `pytubemq`."""
        from pytubemq.cli.invocation import as_typed

        return as_typed(command)

    def note(self, text: str) -> None:
        """Print a message that only -v shows."""
        if self.verbose:
            click.echo(escaped_text(text), err=True)


def _store(name: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def callback(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source is not click.core.ParameterSource.DEFAULT:
            setattr(current(context), name, value)
        return value

    return callback


def current(context: click.Context | None = None) -> GlobalOptions:
    """Return the options of the command that runs."""
    context = context or click.get_current_context()
    options = context.find_object(GlobalOptions)
    if options is None:
        options = context.obj = GlobalOptions()
    return options


def is_default(parameter: str) -> bool:
    """True if a parameter of the command that runs was left out."""
    return click.get_current_context().get_parameter_source(parameter) is click.core.ParameterSource.DEFAULT


def global_options(command: F) -> F:
    """Decorator: adds the options that all commands have."""
    decorators = (
        click.option(
            "-P", "--profile", metavar="NAME", envvar="PYTUBEMQ_PROFILE", expose_value=False,
            callback=_store("profile"), help="The cluster to work with [current one of `profile list`].",
        ),
        click.option(
            "-o", "--output", type=click.Choice(OUTPUTS), expose_value=False, callback=_store("output"),
            is_eager=True,  # before the others, so that their errors are printed in this form
            help="How data is written to standard output.",
        ),
        click.option(
            "--timeout", "timeout_s", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
            expose_value=False, callback=_store("timeout_s"), help="Timeout of one request, in seconds [10].",
        ),
        click.option("-q", "--quiet", is_flag=True, expose_value=False, callback=_store("quiet"), help="Data only."),
        click.option(
            "-v", "--verbose", is_flag=True, expose_value=False, callback=_store("verbose"),
            help="Print more; tracebacks for errors.",
        ),
        click.option(
            "--no-color", is_flag=True, expose_value=False, callback=_store("no_color"),
            help="No colour (as do NO_COLOR, CI and TERM=dumb).",
        ),
    )  # fmt: skip
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def user_options(command: F) -> F:
    """Decorator: the user as which a command connects to Masters and Brokers; the secret itself is no option."""
    decorators = (
        click.option(
            "--user", metavar="NAME", expose_value=False, callback=_store("user"),
            help="The user to connect as, if the cluster authenticates clients [of the profile, or PYTUBEMQ_USER].",
        ),
        click.option(
            "--secret-file", metavar="FILE", expose_value=False, callback=_store("secret_file"),
            help="The file with that user's secret, of mode 0600 [PYTUBEMQ_SECRET_FILE].",
        ),
    )  # fmt: skip
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def http_option(command: F) -> F:
    """Decorator: the option for the JSON API's address, which otherwise comes from the profile."""
    http = click.option("--http", metavar="URL", help="The JSON API [of the profile, or http://127.0.0.1:8080].")
    return http(command)
