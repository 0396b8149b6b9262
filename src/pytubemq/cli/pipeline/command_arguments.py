"""The common arguments of the pipeline's commands: the file, and the variables put into it."""

from __future__ import annotations

import functools
import importlib.util
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pytubemq.cli.target import names
from pytubemq.errors import ConfigError, MissingExtraError, NotFoundError, TubeError, UnreachableError

if TYPE_CHECKING:
    from pytubemq.pipelines import Places

F = TypeVar("F", bound=Callable[..., Any])


def file_argument(command: F) -> F:
    """Decorator: the argument `file`, a path as it was typed; commands in error hints name it too."""

    @functools.wraps(command)
    def named(*args: Any, file: str, **given: Any) -> Any:
        try:
            return command(*args, file=file, **given)
        except TubeError as error:
            if Path(file).is_file():
                _put(error, file, given.get("variables") or {})
            raise

    return click.argument("file", type=click.Path())(named)  # type: ignore[return-value]


def _put(error: TubeError, file: str, variables: Mapping[str, str]) -> None:
    """Complete an error for this file: with the line of what is wrong in it, and as `tell_for`."""
    if isinstance(error, NotFoundError | ConfigError):
        from pytubemq.pipelines import MissingError, PipelineFileError, load

        if isinstance(error, MissingError | PipelineFileError):
            error.put(load(file, variables=variables).places)
    tell_for(error, file, variables)


def tell_for(error: TubeError, file: str, variables: Mapping[str, str]) -> None:
    """Put this file into the commands in an error's hint, with the line of a wrong address."""
    named = rf"\bFILE\b|(?<=pytubemq pipeline lint ){re.escape(file)}"
    error.hint = error.hint and re.sub(named, lambda _: as_given(file, variables), error.hint)
    if isinstance(error, UnreachableError):
        from pytubemq.pipelines import load

        error.hint = _with_address(error, load(file, variables=variables).places)


def as_given(file: str, variables: Mapping[str, str]) -> str:
    """Return the arguments that name a file and its variables, for another command on them; secrets are left out."""
    from pytubemq.pipelines import redact

    sets = (f" --set {shlex.quote(f'{name}={redact(name, text)}')}" for name, text in variables.items())
    return shlex.quote(file) + "".join(sets)


def _with_address(error: UnreachableError, places: Places) -> str | None:
    for path, text in places.texts.items():
        # An address by reference is not in the file.
        if path.rpartition(".")[2] == "master" and any(names(error.message, part) for part in text.split(",")):
            place = places.of(path).value
            where = f"the address is at {places.file}:{place.line}:{place.column}, {places.shown(path)}"
            return where if error.hint is None else f"{error.hint}; {where}"
    return error.hint


def set_option(command: F) -> F:
    """Decorator: the option `--set`, as the mapping `variables`."""
    option = click.option(
        "--set", "variables", multiple=True, metavar="NAME=VALUE", callback=_variables,
        help="A value for ${var:NAME} in the file; may be repeated.",
    )  # fmt: skip
    return option(command)


def _variables(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    made: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE", context, parameter)
        made[name] = text
    return made


def need_spark(what: str) -> None:
    """Raise an error with the command to install Spark, before anything of Spark is imported.

    Raises:
        MissingExtraError: pyspark or pyarrow is not installed.
    """
    if importlib.util.find_spec("pyspark") is None or importlib.util.find_spec("pyarrow") is None:
        raise MissingExtraError("local-spark", what)
