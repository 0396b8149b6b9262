"""Retention policies: the text `delete,72h` of the original, and the forms that ours add.

The grammar, blanks and letter case apart: `keep`, or `delete` and one or two limits between commas. A limit is an age
(`72h`; units s, m, h, d; none: hours) or a size of one partition (`10GB`; units KB, MB, GB, TB, powers of 1024), each
at most once. A message is removed when either limit is reached. The original knows ages only, up to 168 hours.

The invariant: a text from `check_delete_policy` has the same meaning for every reader here, and its ages are in units
that the original reads.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from pytubemq.errors import BadRequestError, Code

MAX_AGE_S: Final = 168 * 3600
"""The longest age the original accepts; also its Broker's value for a text that it does not understand."""
LONGEST_AGE_S: Final = 3650 * 86_400
"""The longest age ours accept; for more there is `keep`."""
_LONGEST_AGE: Final = f"{LONGEST_AGE_S // 3600}h"
LARGEST_SIZE_BYTES: Final = 2**50
KEEP: Final = "keep"

_LIMIT: Final = re.compile(r"(\d{1,15})(s|m|h|d|kb|mb|gb|tb)?", re.ASCII)
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "": 3600}
_UNIT_BYTES: Final = {"KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
_NUMBER: Final = re.compile(r"\d{1,15}", re.ASCII)
_ORIGINAL_AGE: Final = re.compile(r"(\d{1,15})([smh]?)", re.ASCII)


class RetentionPolicy(NamedTuple):
    """The limits of one partition; None: no such limit. Age in seconds, size in bytes."""

    age_s: float | None
    size_bytes: int | None


DEFAULT_RETENTION: Final = RetentionPolicy(float(MAX_AGE_S), None)


def parse_delete_policy(text: str) -> RetentionPolicy:
    """Return the limits in a text of this module's grammar.

    Raises:
        BadRequestError: it is not one, or a limit is 0 or too large.
    """
    return _limits(text)[0]


def check_delete_policy(text: str, *, longest_age_s: int = LONGEST_AGE_S) -> str:
    """Return the normal form of a policy with an age of at most `longest_age_s` (the original's HTTP API: 168 h).

    Raises:
        BadRequestError: it is not a policy, or has a longer age.
    """
    policy, age = _limits(text, longest_age_s)
    limits = [age] if age else []
    if policy.size_bytes is not None:
        limits.append(size_text(policy.size_bytes))
    return ",".join(["delete", *limits]) if limits else KEEP


def original_form(text: str) -> str:
    """Return a policy in the form of the original, whose Brokers read `delete,<age>` and nothing else.

    A policy without an age gets the longest that there is, so that a Broker which knows no sizes deletes nothing.
    """
    return f"delete,{_limits(text)[1] or _LONGEST_AGE}"


def understood_policy(text: str) -> RetentionPolicy:
    """Return the limits that a Broker of the original reads: the age in the second of two items, else 168 hours."""
    items = text.split(",")
    found = _ORIGINAL_AGE.fullmatch(items[1].strip().lower()) if len(items) == 2 else None
    if found is None or (number := int(found[1])) == 0:
        return DEFAULT_RETENTION
    return RetentionPolicy(float(number * _UNIT_S[found[2]]), None)


def policy_of_retention(text: str) -> str:
    """Return the policy for a retention: `72h`, `10GB`, `72h,10GB` or `forever`; a policy's own text is accepted too.

    A number needs its unit here: only in a policy, which the original has, it means hours without one.

    Raises:
        BadRequestError: it is not a retention.
    """
    words = "".join(text.split()).lower()
    if words in ("forever", KEEP):
        return KEEP
    bare = next((limit for limit in words.split(",") if _NUMBER.fullmatch(limit)), None)
    if bare is not None and not words.startswith("delete,"):
        raise BadRequestError(
            f"not a retention: {text[:80]!r}",
            hint=f"write a unit: {bare}h or another age (s, m, h, d), {bare}GB or another size (KB, MB, GB, TB)",
            code=Code.BAD_REQUEST,
        )
    try:
        return check_delete_policy(words if words.startswith("delete,") else f"delete,{words}")
    except BadRequestError as error:
        raise BadRequestError(f"not a retention: {text[:80]!r}", hint=error.hint, code=Code.BAD_REQUEST) from error


def retention_of_policy(text: str) -> str:
    """Return the retention of a policy: `72h,10GB` for `delete,72h,10GB`, and `forever` for `keep`."""
    return "forever" if text == KEEP else text.removeprefix("delete,")


def keeps_less(new: RetentionPolicy, old: RetentionPolicy) -> bool:
    """True if a change of policy may delete messages that the old one keeps."""
    return _is_less(new.age_s, old.age_s) or _is_less(new.size_bytes, old.size_bytes)


def _is_less(new: float | None, old: float | None) -> bool:
    return new is not None and (old is None or new < old)


def size_text(size_bytes: int) -> str:
    """Return a size in the largest unit that divides it: `10GB`."""
    for unit, factor in reversed(_UNIT_BYTES.items()):
        if size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return f"{size_bytes}B"


def _limits(text: str, longest_age_s: int = LONGEST_AGE_S) -> tuple[RetentionPolicy, str]:
    """Return the policy, and its age as written ("" without one)."""
    words = "".join(text.split()).lower()
    if words == KEEP:
        return RetentionPolicy(None, None), ""
    action, *limits = words.split(",")
    age_s: int | None = None
    size_bytes: int | None = None
    age = ""
    for limit in limits:
        found = _LIMIT.fullmatch(limit)
        number, unit = (int(found[1]), (found[2] or "")) if found else (0, "")
        if found is None or number == 0:
            raise _not_a_policy(text, longest_age_s)
        if unit in _UNIT_S and age_s is None:
            age_s = number * _UNIT_S[unit]
            age = f"{number * 24}h" if unit == "d" else f"{number}{unit or 'h'}"
        elif unit.upper() in _UNIT_BYTES and size_bytes is None:
            size_bytes = number * _UNIT_BYTES[unit.upper()]
        else:  # the same limit twice
            raise _not_a_policy(text, longest_age_s)
    too_much = (age_s or 0) > longest_age_s or (size_bytes or 0) > LARGEST_SIZE_BYTES
    if action != "delete" or not 1 <= len(limits) <= 2 or too_much:
        raise _not_a_policy(text, longest_age_s)
    return RetentionPolicy(None if age_s is None else float(age_s), size_bytes), age


def _not_a_policy(text: str, longest_age_s: int) -> BadRequestError:
    return BadRequestError(
        f"not a delete policy: {text[:80]!r}",
        hint=f"write an age (3600s, 90m, 72h, 7d; at most {longest_age_s // 3600} hours), a size of a partition (10GB; "
        "at most 1024TB) or both: 72h,10GB, as a delete policy delete,72h,10GB; or forever, as a delete policy keep",
        code=Code.BAD_REQUEST,
    )
