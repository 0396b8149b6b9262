"""The place of dead letters that name none: beside the state, where their format takes a directory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytubemq.pipelines.file.sink_table import sink_kind

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import DeadLetter


def with_place(letters: DeadLetter, beside: str) -> DeadLetter:
    """Return the dead letters with a path, if their format takes one and they name none.

    Args:
        letters: what the file says of them.
        beside: the directory, beside the state, of those that name none.
    """
    kind = sink_kind(letters.format).dead_letters
    if letters.path is None and kind is not None and kind.beside_state:
        return replace(letters, path=beside)
    return letters
