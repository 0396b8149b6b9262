"""An estimate of how many random bits a token has at most.

The invariants: what common generators make of 128 bits passes (digits, hex, base64, UUIDs; of base32 all but a few in a
thousand, which have no digit and so look like words); one character or word again and again, steps through the alphabet
and well-known words do not, however long; words one behind the other count two bits a letter.
"""

from __future__ import annotations

import math
import re
from typing import Final

MIN_BITS: Final = 128
"""Least bits of a token: so many cannot be tried out."""
_MIN_DISTINCT: Final = 7
"""Least distinct characters: 39 random digits have fewer once in a million."""
_BLOCK: Final = 4
"""Characters that come again as a block count once."""
_BLOCK_OF_DIGITS: Final = 6
"""The same of digits alone, where four come again by chance."""
_CHANCE_SHARE: Final = 4
"""In a random text one character of so many may be foreseen by chance."""
_LETTER_OF_A_WORD_BITS: Final = 2.0
_WORDS: Final = re.compile(r"(?:[A-Z]?[a-z]{2,}[-_. ]{0,2})+\d{0,4}|[A-Z_. -]+\d{0,4}")
"""Texts that are words, one behind the other: `SecretOfOurs2026`, `correct horse battery staple`, `UPPER-CASE`."""
_ONE_CASE: Final = re.compile(r"[a-z0-9_. -]+|[A-Z0-9_. -]+")
_KNOWN_WORDS: Final = re.compile(
    "passwor[dt]|passphrase|secret|token|administrator|admin|changeme|changeit|letmein|welcome|default|tubemq|inlong|"
    "apache|master|broker|cluster|example|sample|sesame|dummy|test|root|user|"
    "qwertz?u?i?o?p?|asdfg?h?j?k?l?|zxcvb?n?m?|1qaz|2wsx|3edc|4rfv|5tgb|6yhn|7ujm",
    re.IGNORECASE,
)


def estimate_bits(text: str) -> float:
    """Return how many random bits a text has at most, as far as can be seen from its characters."""
    if len(set(text)) < _MIN_DISTINCT:
        return float(len(set(text)))
    foreseen = _foreseen(text)
    if foreseen * _CHANCE_SHARE <= len(text):
        foreseen = 0
    return (len(text) - foreseen) * _bits_of_a_character(text)


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


def _foreseen(text: str) -> int:
    """Return how many characters follow from those before them, or belong to a well-known word."""
    foreseen = {at for word in _KNOWN_WORDS.finditer(text) for at in range(word.start() + 1, word.end())}
    places = [ord(character) for character in text]
    for at in range(2, len(text)):
        step = places[at] - places[at - 1]
        if step == places[at - 1] - places[at - 2] and abs(step) <= 1:
            foreseen.add(at)
    seen: set[str] = set()
    length = _BLOCK_OF_DIGITS if text.isdecimal() else _BLOCK
    for at in range(len(text) - length + 1):
        block = text[at : at + length].lower()
        if block in seen:
            foreseen.update(range(at, at + length))
        seen.add(block)
    return len(foreseen)
