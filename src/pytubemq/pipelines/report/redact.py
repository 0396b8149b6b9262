"""Configuration as it may be shown: without what could be a secret.

The invariant: references to secrets stay, as they say where one is and not what; a name that stands for a secret hides
all that is below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pytubemq.pipelines.file.secrets import REDACTED
from pytubemq.pipelines.file.secrets import redact as redact_text

MOST_DEPTH: Final = 32


def redact(value: Any, *, key: str = "", depth: int = 0) -> Any:
    """Copy plain values (mappings, lists, text, numbers) without any secret."""
    if depth > MOST_DEPTH:
        return REDACTED
    if isinstance(value, Mapping):
        return {str(name): redact(item, key=str(name), depth=depth + 1) for name, item in value.items()}
    if isinstance(value, str):
        return redact_text(key, value)
    if isinstance(value, Sequence):
        return [redact(item, key=key, depth=depth + 1) for item in value]
    if value is None or isinstance(value, bool):
        return value
    return value if redact_text(key, str(value)) == str(value) else REDACTED
