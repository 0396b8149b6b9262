"""The targets of a call, in short form for the log.

The invariant: only names of things are logged, each of them checked, and never more than a few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytubemq.admin.webapi.params import Args

NAMES = ("brokerId", "brokerIp", "topicName", "groupName", "consumerId", "sourceGroupName", "targetGroupName")
SHOWN = 8
LONGEST = 64


def targets(args: Args) -> str:
    """Return the targets, as in `topicName orders, demo; brokerId 1`; blank where the call names nothing."""
    found: dict[str, dict[str, None]] = {}
    for one in _all(args):
        for name in NAMES:
            for text in _texts(one.values.get(name)):
                found.setdefault(name, {})[text] = None
    return "; ".join(f"{name} {_few(tuple(found[name]))}" for name in NAMES if name in found)


def _all(args: Args) -> Iterator[Args]:
    """Yield the arguments, and those of the objects of its sets."""
    yield args
    for value in args.values.values():
        if isinstance(value, tuple):
            yield from (item for item in value if hasattr(item, "values"))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str | int):
        yield str(value)
    elif isinstance(value, tuple | list | frozenset):
        yield from (str(one) for one in value)


def _few(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - SHOWN:,} more" if len(texts) > SHOWN else ""
    return ", ".join(text if len(text) <= LONGEST else text[:LONGEST] + "..." for text in texts[:SHOWN]) + more
