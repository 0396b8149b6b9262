"""Numbers as people read them."""

from __future__ import annotations

import pytest

from pytubemq.cli.output.words import count_of, size


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 partitions"), (1, "1 partition"), (2, "2 partitions"), (1405, "1,405 partitions")]
)
def test_one_is_singular_and_all_else_plural(number: int, text: str) -> None:
    assert count_of(number, "partition") == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1,023 bytes"),
        (1024, "1.0 KiB"),
        (330 * 2**20, "330 MiB"),
        (1023 * 2**20 + 2**19 - 1, "1,023 MiB"),
        (1023 * 2**20 + 2**19, "1.0 GiB"),
        (3 * 2**29, "1.5 GiB"),
        (64 * 2**30, "64 GiB"),
        (2**80, "1,048,576 EiB"),
    ],
)
def test_a_size_is_told_in_the_unit_that_fits_it(number: int, text: str) -> None:
    assert size(number) == text
