"""Decimals in every format: what fits the column exactly is there, all else is rejected by itself, and nothing ends the
process, whatever the exponent."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytubemq.decode import make_decoder

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = "a DECIMAL(10,2)"
MOST = Decimal(10) ** 8
FORMATS: dict[str, tuple[str, Callable[[str], bytes], dict[str, str]]] = {
    "csv": (SCHEMA, str.encode, {}),
    "csv with nulls": (SCHEMA, str.encode, {"nullLiteral": "NULL"}),
    "kv": (SCHEMA, lambda text: f"a={text}".encode(), {}),
    "json": (SCHEMA, lambda text: f'{{"a":{text}}}'.encode(), {}),
    "json text": (SCHEMA, lambda text: json.dumps({"a": text}).encode(), {}),
    "json mixed": (SCHEMA, lambda text: f'{{"a":{text}}}'.encode(), {"castStrings": "true"}),
    "json array": ("a ARRAY<DECIMAL(10,2)>", lambda text: f'{{"a":[{text}]}}'.encode(), {}),
    "json struct": ("a STRUCT<b: DECIMAL(10,2)>", lambda text: f'{{"a":{{"b":{text}}}}}'.encode(), {}),
    "canal-json": (SCHEMA, lambda text: json.dumps({"type": "INSERT", "data": [{"a": text}]}).encode(), {}),
    "debezium-json": (SCHEMA, lambda text: f'{{"op":"c","after":{{"a":{text}}}}}'.encode(), {}),
}
ODD = [
    "1E-999999999", "-1E-999999999", "1E-77", "1E-39", "1E-40", "1E999999999", "1E9", "1E8", "1E7", "0E-999999999",
    "0E999999999", "99999999.99", "100000000", "1.500000000000000000000000000000000000000000000000", "1.005", "-0",
]  # fmt: skip
NUMBERS = st.builds(
    lambda sign, whole, part, exponent: f"{sign}{whole}{part}{exponent}",
    st.sampled_from(["", "-"]),
    st.integers(0, 10**12).map(str),
    st.sampled_from(["", ".0", ".5", ".25", ".125"]) | st.integers(0, 10**50).map(lambda n: f".{n}"),
    st.just("") | st.integers(-120, 120).map(lambda n: f"E{n}") | st.sampled_from(["e-99999999", "E-999999999", "e5"]),
)


def wanted(text: str) -> Decimal | None:
    """The number, if two digits behind the point and eight before it hold it."""
    number = Decimal(text)
    if number == 0:
        return Decimal(0)
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    behind = -exponent - (len(digits) - len("".join(map(str, digits)).rstrip("0")))
    return number if behind <= 2 and number.adjusted() < 8 else None


def decoded(name: str, *texts: str) -> list[Decimal | None]:
    schema, made, options = FORMATS[name]
    bodies = [made(text) for text in texts]
    found = make_decoder(name.split()[0], schema=schema, options=options).decode(pa.record_batch({"body": bodies}))
    values = found.rows.column("a").to_pylist()
    flat = [
        value[0] if isinstance(value, list) else value["b"] if isinstance(value, dict) else value for value in values
    ]
    assert len(flat) + found.rejected.num_rows == len(texts)
    return flat


@pytest.mark.parametrize("name", FORMATS)
def test_odd_numbers_are_exact_or_rejected_and_change_nothing_beside_them(name: str) -> None:
    assert decoded(name, "1.25", *ODD, "-3") == [
        Decimal("1.25"), *(number for text in ODD if (number := wanted(text)) is not None), Decimal(-3),
    ]  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
@given(text=NUMBERS)
@example(text="12345678.90")
def test_any_number_is_exact_or_rejected(name: str, text: str) -> None:
    number = wanted(text)
    assert decoded(name, text) == ([] if number is None else [number])


@pytest.mark.parametrize("text", ["1_0", "NaN", "Infinity", "sNaN", "\u0661", "0x1", "1e", ".", "+", "--1"])
def test_what_is_no_number_is_rejected(text: str) -> None:
    for name in ("csv", "csv with nulls", "kv", "json text", "canal-json"):
        assert decoded(name, text) == []


def test_digits_beyond_a_float_s_are_kept_wherever_a_decimal_stands() -> None:
    schema = "a DECIMAL(38,10), b ARRAY<STRUCT<c: DECIMAL(38,10), d: DOUBLE>>, n INT"
    number = "1234567890123456789012345678.0123456789"
    good = f'{{"a": {number}, "b": [{{"c": {number}, "d": 0.1}}], "n": 1}}'
    for body, n in ((good, 1), (good.replace(": 1}", ': "x"}'), None)):
        decoder = make_decoder("json", schema=schema, options={"ignoreErrors": "true"})
        rows = decoder.decode(pa.record_batch({"body": [body.encode()]})).rows.to_pylist()
        assert rows == [{"a": Decimal(number), "b": [{"c": Decimal(number), "d": 0.1}], "n": n}]


def test_a_number_that_no_decimal_can_hold_is_rejected() -> None:
    assert decoded("json array", "1E99999999999999999999", "1") == [Decimal(1)]
