"""Each target with its corpus, and with variations of it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.corpus import DIRECTORY, inputs_of
from tests.fuzz.targets import TARGETS
from tests.support.properties import examples

pytestmark = pytest.mark.slow
EXAMPLES = 1_500
SOAK_FACTOR = 10
SOAK_S = 600.0
"""A soak tries so many examples again and again, each time others, for so long for each target."""
_BYTES = st.binary(max_size=12) | st.sampled_from(
    [b"\0", b"*", b" ", b".", b"-1", b"\xff\xff\xff\xff", b"\x80" * 9 + b"\x01", b"\xed\xa0\x80", b"9" * 20]
)
_EDITS = st.lists(st.tuples(st.integers(0, 1 << 12), st.integers(0, 24), _BYTES), max_size=5)


def varied(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """The same with some bytes taken out and others put in."""
    for place, removed, added in edits:
        at = place % (len(data) + 1)
        data = data[:at] + added + data[at + removed :]
    return data


def test_each_target_has_a_corpus_and_each_corpus_a_target() -> None:
    assert {path.name for path in DIRECTORY.iterdir()} == set(TARGETS)
    assert all(inputs_of(target) for target in TARGETS)


@pytest.mark.parametrize("target", TARGETS)
def test_the_corpus_fails_nowhere(target: str) -> None:
    for data in inputs_of(target):
        TARGETS[target](data)


@pytest.mark.parametrize("target", TARGETS)
def test_no_variation_of_it_fails(target: str, *, soak: bool) -> None:
    inputs = inputs_of(target)
    until_s = time.monotonic() + (SOAK_S if soak else 0.0)

    @settings(max_examples=examples(EXAMPLES, soak_factor=SOAK_FACTOR))
    @given(st.sampled_from(inputs) | st.binary(max_size=200), _EDITS)
    def run(data: bytes, edits: list[tuple[int, int, bytes]]) -> None:
        TARGETS[target](varied(data, edits))

    run()
    while time.monotonic() < until_s:
        run()
