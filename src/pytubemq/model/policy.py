"""How long messages are kept: the text `delete,72h`."""

from __future__ import annotations

import re
from typing import Final

from pytubemq.errors import BadRequestError, Code

MAX_AGE_S: Final = 168 * 3600
"""The longest age the original takes."""
_FORM = re.compile(r"delete,(\d{1,9})([smh]?)", re.ASCII)
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3600, "": 3600}


def check_delete_policy(text: str) -> str:
    """A policy `delete,<n>[s|m|h]` (no unit: hours), of more than nothing and at most 168 hours, with its unit.

    Raises:
        BadRequestError: it is none.
    """
    found = _FORM.fullmatch("".join(text.split()))
    if found is None or not 0 < int(found[1]) * _UNIT_S[found[2]] <= MAX_AGE_S:
        raise BadRequestError(
            f"not a delete policy: {text[:80]!r}",
            hint="write delete and an age of at most 168 hours: delete,72h or delete,90m or delete,3600s",
            code=Code.BAD_REQUEST,
        )
    return f"delete,{int(found[1])}{found[2] or 'h'}"
