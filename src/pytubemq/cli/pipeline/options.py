"""What the pipeline's commands share: the file, and the variables put into it."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from pytubemq.errors import MissingExtraError

F = TypeVar("F", bound=Callable[..., Any])


def file_argument(command: F) -> F:
    """Decorator: the argument `file`, a path as it was typed."""
    return click.argument("file", type=click.Path())(command)


def set_option(command: F) -> F:
    """Decorator: the option `--set`, as the mapping `variables`."""
    option = click.option(
        "--set", "variables", multiple=True, metavar="NAME=VALUE", callback=_variables,
        help="What ${var:NAME} in the file stands for; may be given several times.",
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


def on_path(file: str) -> None:
    """Let steps name modules that lie beside the file, here and in the processes that Spark starts from here."""
    beside = str(Path(file).absolute().parent)
    if beside not in sys.path:
        sys.path.insert(0, beside)
    known = os.environ.get("PYTHONPATH", "")
    if beside not in known.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(part for part in (beside, known) if part)


def need_spark(what: str) -> None:
    """Say what to install before anything of Spark is imported.

    Raises:
        MissingExtraError: pyspark or pyarrow is not installed.
    """
    if importlib.util.find_spec("pyspark") is None or importlib.util.find_spec("pyarrow") is None:
        raise MissingExtraError("local-spark", what)
