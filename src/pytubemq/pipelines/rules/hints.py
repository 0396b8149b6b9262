"""Hints for a name that is not there: the nearest one that is, else all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.model.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Iterable


def one_of(name: str, known: Iterable[str]) -> str:
    """Suggest the name that was meant, or list those that there are."""
    there = list(known)
    close = suggest(name, there)
    return f'did you mean "{close}"?' if close else f"there is {', '.join(there)}"
