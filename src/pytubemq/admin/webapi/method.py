"""A method of the API: its names, its parameters and its function; and the table of all methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from pytubemq.admin.webapi.envelope import Reply, rows
from pytubemq.admin.webapi.kinds import shown
from pytubemq.admin.webapi.params import LONGEST_NAME, Args, CallError, Param
from pytubemq.model.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

A = TypeVar("A")
"""The server that a method uses."""


@dataclass(frozen=True, slots=True)
class Method(Generic[A]):
    """A method; `modify` means that it changes something and needs the token; `about` is its line in the reference.

    `run` may raise CallError or TubeError, which become a failure in the envelope.
    """

    name: str
    about: str
    modify: bool
    params: tuple[Param, ...]
    run: Callable[[A, Args], Awaitable[Reply]]
    aliases: tuple[str, ...] = ()


def change(
    name: str,
    about: str,
    params: tuple[Param, ...],
    run: Callable[[A, Args], Awaitable[Reply]],
    aliases: Iterable[str] = (),
) -> Method[A]:
    """Return a method that changes something."""
    return Method(name, about, True, params, run, tuple(aliases))


class Table(Generic[A]):
    """The methods of one server by all their names.

    Args:
        methods: the methods that are offered; `admin_get_methods` is added.
        not_offered: names of the original's that are not served here, each with the reason and an alternative.
    """

    def __init__(self, methods: Iterable[Method[A]], not_offered: Mapping[str, str]) -> None:
        self.methods = (*methods, self._listing())
        self.not_offered = dict(not_offered)
        self._by_name: dict[str, Method[A]] = {}
        for method in self.methods:
            for name in (method.name, *method.aliases):
                if name in self._by_name or name in self.not_offered:
                    raise ValueError(f"{name} is in the table twice")
                self._by_name[name] = method

    def find(self, name: str) -> Method[A]:
        """Return the method of a name. Raises CallError: there is none, or it is not offered here."""
        method = self._by_name.get(name)
        if method is None:
            reason = self.not_offered.get(name)
            raise CallError(self._unknown(name) if reason is None else f"{name} is not offered: {reason}")
        return method

    def _unknown(self, name: str) -> str:
        near = suggest(name[:LONGEST_NAME], self._by_name)
        meant = f"did you mean {near}? " if near else ""
        return f"there is no such method as {shown(name)}: {meant}admin_get_methods lists those there are"

    def _listing(self) -> Method[A]:
        async def run(_: A, __: Args) -> Reply:
            return rows({"method": name, "needAuth": method.modify} for name, method in sorted(self._by_name.items()))

        return Method("admin_get_methods", "All methods, and whether they need the token.", False, (), run)
