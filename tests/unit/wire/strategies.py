"""Hypothesis strategies for the protocol's messages, made from their field specs."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from hypothesis import strategies as st

from pytubemq.wire.protobuf.schema import FieldSpec, Kind, Label, specs

if TYPE_CHECKING:
    from collections.abc import Callable

E = TypeVar("E", bound=Exception)
I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SCALARS: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.BOOL: st.booleans(),
    Kind.BYTES: st.binary(max_size=40),
    Kind.I32: I32,
    Kind.I64: I64,
    Kind.STR: TEXT,
}


def fault(call: Callable[[], object], kind: type[E]) -> E | None:
    """The error of this kind that the call ends with, if any; every other one goes through."""
    try:
        call()
    except kind as error:
        return error
    return None


def messages(cls: type) -> st.SearchStrategy[Any]:
    """Any message of a class; optional fields are often absent."""
    return st.builds(cls, **{attribute: _field(spec) for attribute, spec in specs(cls).items()})


def _field(spec: FieldSpec) -> st.SearchStrategy[Any]:
    if isinstance(spec.kind, Kind):
        value = SCALARS[spec.kind]
    elif issubclass(spec.kind, Enum):
        value = st.sampled_from(list(spec.kind))
    else:
        kind = spec.kind
        value = st.deferred(lambda: messages(kind))
    if spec.label is Label.REPEATED:
        return st.lists(value, max_size=3).map(tuple)
    return st.none() | value if spec.label is Label.OPTIONAL else value
