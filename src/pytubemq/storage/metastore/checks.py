"""Checksums of a metadata store's records: of each record, and of all records together.

SQLite checks only the structure of its file; in the write-ahead log it silently drops frames whose checksum fails. A
changed value, or a lost tail of changes, passes both; these checksums detect them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable

_MODULUS: Final = 1 << 62
"""Keeps a sum of checksums within SQLite's integers."""


def check_of_row(table: str, values: Iterable[Any]) -> int:
    """Return the checksum of a record's columns; a truth value counts as the number that SQLite keeps."""
    plain = [int(value) if isinstance(value, bool) else value for value in values]
    # With the table's name, so that a row that turns up in another table fails.
    return crc32(f"{table}{plain!r}".encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class Totals:
    """Expected totals of a store: `generation` counts its changes, `total` is the sum of its records' checksums."""

    generation: int = 0
    records: int = 0
    total: int = 0

    def plus(self, check: int) -> Totals:
        """Return the totals with one more record."""
        return Totals(self.generation, self.records + 1, (self.total + check) % _MODULUS)

    def minus(self, check: int) -> Totals:
        """Return the totals with one record less."""
        return Totals(self.generation, self.records - 1, (self.total - check) % _MODULUS)

    def next(self) -> Totals:
        """Return the totals after one more change."""
        return Totals(self.generation + 1, self.records, self.total)

    def check(self, last_serial_id: int) -> int:
        """Return the checksum of the totals themselves, and of the largest serial id beside them."""
        return check_of_row("state", (self.generation, self.records, self.total, last_serial_id))
