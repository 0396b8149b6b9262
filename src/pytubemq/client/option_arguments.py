"""Methods that take the arguments of an options class.

The invariant: name, type and default of an option are written in the constructor of its class alone. `help`, type
checkers and editors show them for each method that takes them, in the async client and in its sync twin.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
Owner = TypeVar("Owner")
Options = TypeVar("Options")
R = TypeVar("R")


def takes(
    options: Callable[P, Options], *, like: Callable[..., Any] | None = None
) -> Callable[[Callable[[Owner, Options], R]], Callable[Concatenate[Owner, P], R]]:
    """Have a method of one argument, the options, take the arguments of their constructor.

    Args:
        options: the class of the options.
        like: the method's twin, whose docstring describes the arguments for both.
    """

    def decorate(method: Callable[[Owner, Options], R]) -> Callable[Concatenate[Owner, P], R]:
        @functools.wraps(method)
        def call(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> R:
            return method(self, options(*args, **kwargs))

        return _show_arguments(call, method, options, like)

    return decorate


def function_takes(
    options: Callable[P, Options], *, like: Callable[..., Any] | None = None
) -> Callable[[Callable[[Options], R]], Callable[P, R]]:
    """Have a function of one argument, the options, take the arguments of their constructor; as `takes`."""

    def decorate(function: Callable[[Options], R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return function(options(*args, **kwargs))

        return _show_arguments(call, function, options, like)

    return decorate


C = TypeVar("C", bound="Callable[..., Any]")


def _show_arguments(
    call: C, original: Callable[..., Any], options: Callable[..., Any], like: Callable[..., Any] | None
) -> C:
    """Give `call` the signature that `inspect` and `help` show, and the description of its arguments."""
    own = inspect.signature(original)
    before = list(own.parameters.values())[:-1]  # `self`, if it is a method
    arguments = inspect.signature(options).parameters.values()
    call.__signature__ = own.replace(parameters=[*before, *arguments])  # type: ignore[attr-defined]
    if like is not None:
        call.__doc__ = f"{inspect.getdoc(original)}\n\n{_described_arguments(like)}"
    return call


def _described_arguments(function: Callable[..., Any]) -> str:
    """Return the part of a docstring that describes the arguments, and what is behind it."""
    _, title, rest = (inspect.getdoc(function) or "").partition("Args:\n")
    return title + rest
