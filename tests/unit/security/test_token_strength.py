"""Tokens that are random pass, tokens that somebody made up do not."""

from __future__ import annotations

import base64
import random
import uuid
from typing import TYPE_CHECKING

import pytest

from pytubemq.security.token_strength import MIN_BITS, estimate_bits

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        "a" * 24,
        "a" * 10_000,
        "ab" * 64,
        "abcdefgh" * 32,
        "abcdefghijklmnopqrstuvwxyz",
        "0123456789" * 8,
        "0123456789abcdef0123456789abcdef",
        "00000000-0000-0000-0000-000000000000",
        "changeme-changeme-changeme",
        "Password123Password123Password123",
        "MySecretTokenForProduction2026",
        "this-is-my-very-secret-token-for-the-cluster",
        "correct horse battery staple again",
        "1qaz2wsx3edc4rfv5tgb6yhn7ujm",
        "qwertyuiopasdfghjklzxcvbnm123",
        "x7Kd2fQ0xVb5Zr8LmW3y",
    ],
)
def test_what_can_be_guessed_has_too_few_bits(text: str) -> None:
    assert estimate_bits(text) < MIN_BITS


@pytest.mark.parametrize(
    "make",
    [
        lambda data: base64.urlsafe_b64encode(data).rstrip(b"=").decode(),
        lambda data: base64.b64encode(data).decode(),
        lambda data: data.hex(),
        lambda data: data.hex().upper(),
        lambda data: str(uuid.UUID(bytes=data)),
        lambda data: f"{int.from_bytes(data, 'big'):039d}",
    ],
    ids=["base64url", "base64", "hex", "HEX", "uuid", "digits"],
)
@pytest.mark.slow
def test_what_generators_make_of_128_random_bits_passes(make: Callable[[bytes], str]) -> None:
    rng = random.Random(20240229)
    tokens = [make(rng.randbytes(16)) for _ in range(20_000)]
    assert [token for token in tokens if estimate_bits(token) < MIN_BITS] == []


def test_a_random_text_behind_words_passes() -> None:
    assert estimate_bits("token-of-our-cluster-p3Xv0aWq7ZkR_tB9mYcD2g") >= MIN_BITS
