"""The check before each method of a page of the original's.

The invariant: where authentication is on, a method without a row in its table of permissions is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.admin.access.needs import SIGNED_IN, HttpNeed, Names, Row
from pytubemq.admin.problems import ApiError
from pytubemq.admin.webapi.params import Args, CallError
from pytubemq.security.authentication_mode import AuthenticationMode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from starlette.requests import Request

    from pytubemq.admin.access.gate import Caller, Gate

_TOPICS: Final = ("topicName",)
_GROUPS: Final = ("groupName", "sourceGroupName", "targetGroupName")


class CallGate:
    """The check of the methods of one table."""

    def __init__(self, gate: Gate, table: Mapping[str, tuple[HttpNeed, ...]]) -> None:
        self.gate = gate
        self._table = table

    async def enter(
        self, request: Request, name: str, *, modify: bool, query: Mapping[str, str], form: Mapping[str, str]
    ) -> Caller:
        """Return who makes a call. Raises CallError: a token is wrong or missing, or another site's page calls."""
        try:
            caller = await self.gate.enter(request, guarded=modify, changes=modify, query=query, form=form)
            if self.gate.mode is AuthenticationMode.ENFORCED:  # before a stranger's parameters are looked at
                self.gate.authorize(caller, Row((SIGNED_IN,)), Names(), what=name)
            return caller
        except ApiError as error:
            raise _call_error(error) from None

    def authorize(self, caller: Caller, name: str, names: Names, *, modify: bool) -> None:
        """Refuse a call that is not permitted. Raises CallError."""
        needs = self._table.get(name)
        if needs is None:
            if self.gate.mode is not AuthenticationMode.OFF:
                raise CallError(f"{name} is refused, since no permission is known that allows it")
            return
        try:
            self.gate.authorize(caller, Row(needs, guarded=modify), names, what=name)
        except ApiError as error:
            raise _call_error(error) from None


def names_of(args: Args) -> Names:
    """Return the topics and groups that a call names, also in the objects of its sets."""
    topics: dict[str, None] = {}
    groups: dict[str, None] = {}
    for one in with_sets(args):
        for name in _TOPICS:
            topics |= dict.fromkeys(texts_of(one.values.get(name)))
        for name in _GROUPS:
            groups |= dict.fromkeys(texts_of(one.values.get(name)))
    return Names(tuple(topics), tuple(groups))


def with_sets(args: Args) -> Iterator[Args]:
    """Yield the arguments, and those of the objects of its sets."""
    yield args
    for value in args.values.values():
        if isinstance(value, tuple):
            yield from (item for item in value if hasattr(item, "values"))


def texts_of(value: object) -> Iterator[str]:
    """Yield an argument as texts: one, or those of a list."""
    if isinstance(value, str | int):
        yield str(value)
    elif isinstance(value, tuple | list | frozenset):
        yield from (str(one) for one in value)


def _call_error(error: ApiError) -> CallError:
    return CallError(f"{error.message}: {error.hint}" if error.hint else error.message)
