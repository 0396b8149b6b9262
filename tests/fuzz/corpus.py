"""The corpus: for each target a directory of inputs, which found something new when they were added."""

from __future__ import annotations

from pathlib import Path
from typing import Final

DIRECTORY: Final = Path(__file__).parent / "corpus"


def inputs_of(target: str) -> list[bytes]:
    """All inputs of a target, in the order of their names."""
    return [path.read_bytes() for path in sorted((DIRECTORY / target).iterdir()) if path.is_file()]
