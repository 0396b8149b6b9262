"""Topics that a pipeline would both read and write, so that each row comes again as a new one, without an end.

The rule: a topic is told by its name and by the Masters that know it. Two lists of Masters are of one cluster if they
have an address in common; where one of them is not known yet, nothing is told.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytubemq.pipelines.file.model import Source

AGAIN = "would come again and again"


def read_again(
    source: Source, topic: str | None, master: str | None, *, text_of: Callable[[str], str | None]
) -> str | None:
    """Why what is written to a topic would be read by the same pipeline; None if it would not.

    Args:
        source: of the pipeline.
        topic: that is written to.
        master: its Masters; the source's if None.
        text_of: gives a text without its references, and None if they cannot be told.
    """
    name = text_of(topic) if topic else None
    if source.format != "tubemq" or name is None or not one_cluster(source, master, text_of=text_of):
        return None
    given = text_of(option_of(source.options, "topic") or "") or ""
    if name in {text_of(each) for each in source.topics} | {each.strip() for each in given.split(",")}:
        return "is the topic that is read"
    pattern = text_of(option_of(source.options, "topicPattern") or source.topic_pattern or "")
    try:
        matches = bool(pattern) and re.fullmatch(pattern or "", name) is not None
    except re.error:
        return None
    return "matches source.topic_pattern" if matches else None


def remedy(why: str, topic: str) -> str:
    """What to do about it."""
    return f"name another, or leave it out of the pattern: (?!{topic}$)..." if "pattern" in why else "name another"


def one_cluster(source: Source, master: str | None, *, text_of: Callable[[str], str | None]) -> bool:
    """Whether Masters are of the cluster that a source reads from."""
    ours = option_of(source.options, "master") or source.master
    if master is None or master == ours:
        return True
    here, there = _addresses(ours, text_of), _addresses(master, text_of)
    return bool(here & there)


def option_of(options: Mapping[str, str], name: str) -> str | None:
    """An option's value, by its name in any case."""
    return next((value for key, value in options.items() if key.lower() == name.lower()), None)


def _addresses(masters: str | None, text_of: Callable[[str], str | None]) -> frozenset[str]:
    """Each Master's address in one form; empty if they are not known."""
    from pytubemq.errors import TubeError
    from pytubemq.net.client.masters import parse_masters  # few files need it

    text = text_of(masters) if masters else None
    if not text:
        return frozenset()
    try:
        return frozenset(str(address).lower() for address in parse_masters(text))
    except TubeError:
        return frozenset()
