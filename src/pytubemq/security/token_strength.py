"""An estimate of how many random bits a token has at most.

The invariants: 128 bits from common generators pass (digits, hex, base64, UUIDs; of base32 all but a few in a thousand,
which have no digit and so look like words); repetitions of a character or a word, steps through the alphabet and
well-known words do not pass, however long; in sequences of words a letter counts two bits.
"""

from __future__ import annotations

import math
import re
from typing import Final

MIN_BITS: Final = 128
"""The fewest bits of a token: too many to try them all."""
_MIN_DISTINCT: Final = 7
"""The fewest distinct characters: 39 random digits have fewer once in a million."""
_BLOCK: Final = 4
"""The length of a block of characters that counts once if it is repeated."""
_BLOCK_OF_DIGITS: Final = 6
"""The length of such a block in digits alone, where blocks of four are repeated by chance."""
_CHANCE_SHARE: Final = 4
"""In a random text one character in so many may be predictable by chance."""
_LETTER_OF_A_WORD_BITS: Final = 2.0
_WORDS: Final = re.compile(r"(?:[A-Z]?[a-z]{2,}[-_. ]{0,2})+\d{0,4}|[A-Z_. -]+\d{0,4}")
"""Texts that are sequences of words: `SecretOfOurs2026`, `correct horse battery staple`, `UPPER-CASE`."""
_ONE_CASE: Final = re.compile(r"[a-z0-9_. -]+|[A-Z0-9_. -]+")
_KNOWN_WORDS: Final = re.compile(
    "passwor[dt]|passphrase|secret|token|administrator|admin|changeme|changeit|letmein|welcome|default|tubemq|inlong|"
    "apache|master|broker|cluster|example|sample|sesame|dummy|test|root|user|"
    "qwertz?u?i?o?p?|asdfg?h?j?k?l?|zxcvb?n?m?|1qaz|2wsx|3edc|4rfv|5tgb|6yhn|7ujm",
    re.IGNORECASE,
)


def estimate_bits(text: str) -> float:
    """Return the most random bits that a text can have, judged by its characters."""
    if len(set(text)) < _MIN_DISTINCT:
        return float(len(set(text)))
    predictable = _predictable(text)
    if predictable * _CHANCE_SHARE <= len(text):
        predictable = 0
    return (len(text) - predictable) * _bits_of_a_character(text)


def _bits_of_a_character(text: str) -> float:
    if text.isdecimal():
        return math.log2(10)
    if re.fullmatch("[0-9a-f-]+|[0-9A-F-]+", text):
        return 4.0
    if _WORDS.fullmatch(text):
        return _LETTER_OF_A_WORD_BITS
    if _ONE_CASE.fullmatch(text):
        return 5.0
    return 6.0


def _predictable(text: str) -> int:
    """Return the number of characters that follow from those before them, or belong to a well-known word."""
    predictable = {at for word in _KNOWN_WORDS.finditer(text) for at in range(word.start() + 1, word.end())}
    places = [ord(character) for character in text]
    for at in range(2, len(text)):
        step = places[at] - places[at - 1]
        if step == places[at - 1] - places[at - 2] and abs(step) <= 1:
            predictable.add(at)
    seen: set[str] = set()
    length = _BLOCK_OF_DIGITS if text.isdecimal() else _BLOCK
    for at in range(len(text) - length + 1):
        block = text[at : at + length].lower()
        if block in seen:
            predictable.update(range(at, at + length))
        seen.add(block)
    return len(predictable)
