"""The shares of partitions in the rows that a batch may have: decisions, without I/O.

The invariant: shares are in proportion to what each partition has to read, and none of them is so small that a
partition with few rows waits for one that never runs out of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

FLOOR: Final = 0.1
"""The part of an even share that a partition gets at least, if it has so many rows."""


def within_rows(rows: Mapping[str, int], most: int) -> dict[str, int]:
    """Share out `most` rows, or all if there are fewer.

    What rounding leaves goes to the largest remainders.
    """
    if sum(rows.values()) <= most:
        return dict(rows)
    shares = _shares(rows, most)
    whole = {key: int(share) for key, share in shares.items()}
    by_remainder = sorted(
        (key for key in whole if whole[key] < rows[key]), key=lambda key: (whole[key] - shares[key], key)
    )
    for key in by_remainder[: most - sum(whole.values())]:
        whole[key] += 1
    return whole


def within_bytes(rows: Mapping[str, int], most: int, row_bytes: Mapping[str, float]) -> dict[str, int]:
    """Share out `most` bytes, going by what a row of each partition takes; a row at least.

    Args:
        rows: what each partition has.
        most: bytes.
        row_bytes: of each partition; 0 where it is not named.
    """
    sizes = {key: count * row_bytes.get(key, 0.0) for key, count in rows.items()}
    if sum(sizes.values()) <= most:
        return dict(rows)
    shares = _shares(sizes, most)
    whole = {key: int(count * shares[key] / sizes[key]) if sizes[key] else count for key, count in rows.items()}
    if not any(whole.values()):
        first = min(rows, key=lambda key: (-rows[key], key))
        whole[first] = 1
    return whole


def _shares(sizes: Mapping[str, float], most: float) -> dict[str, float]:
    """Divide in proportion, but for those whose share would be below the floor; `most` is less than there is."""
    total = sum(sizes.values())
    even = most / len(sizes)
    floor = max(FLOOR * even, min(1.0, even))
    small = {key: min(size, floor) for key, size in sizes.items() if size * most < floor * total}
    rest = most - sum(small.values())
    others = total - sum(sizes[key] for key in small)
    return {key: small.get(key, size * rest / others if others else 0.0) for key, size in sizes.items()}
