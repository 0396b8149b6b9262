"""Decimals that fit their column, seen to before Arrow gets them.

The invariant: Arrow is given no more digits behind the point than its table of powers of ten has, as it looks there
without a bound: it ends the process at `1E-999999999`, and reads 0 for `1E-77`.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable

_HARMLESS: Final = r"^[+-]?[0-9]{1,38}(\.[0-9]{0,38})?$"
"""The texts that Arrow reads to the same decimal as this module."""
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[Ee][+-]?[0-9]+)?")


def fitting(precision: int, scale: int) -> Callable[[Decimal], Decimal]:
    """Make a function that gives a number the column's digits behind the point; it raises ArithmeticError where that
    would change it, or there are too many digits, or it is none.
    """
    unit = Decimal((0, (1,), -scale))
    context = Context(prec=precision, traps=[Inexact, InvalidOperation])

    def fitted(value: Decimal) -> Decimal:
        if value.is_nan():
            raise InvalidOperation
        return value.quantize(unit, context=context)

    return fitted


def cast_texts(texts: Any, kind: Any) -> Any:
    """Cast texts to an array of `kind`, a decimal type.

    Raises:
        pa.ArrowInvalid: one of them does not fit.
    """
    if pc.all(pc.match_substring_regex(texts, _HARMLESS)).as_py() is not False:
        return texts.cast(kind)
    fitted = fitting(kind.precision, kind.scale)
    try:
        return pa.array([None if text is None else fitted(read(text)) for text in texts.to_pylist()], kind)
    except ArithmeticError as error:
        raise pa.ArrowInvalid(f"a number does not fit {kind}") from error


def read(text: str) -> Decimal:
    """Parse a number; raise ArithmeticError where it is none, as with `_` or digits of other scripts."""
    if _NUMBER.fullmatch(text) is None:
        raise InvalidOperation
    return Decimal(text)
