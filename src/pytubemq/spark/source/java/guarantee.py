"""The guarantee of reads from Java Brokers, in words, for `plan` and the docs. Imports nothing heavy."""

from __future__ import annotations

from typing import Final

EXACTLY_ONCE: Final = "exactly once"
AT_LEAST_ONCE: Final = "at least once"


def java_guarantee(flushed_only: bool) -> tuple[str, str]:
    """Return the level and its reason, by the option `javaReads` (`flushed_only`: it says `flushed`)."""
    if flushed_only:
        return EXACTLY_ONCE, (
            "only what the Java Broker has flushed to disk is read, so a batch read again has the same messages even "
            "after the Broker was killed"
        )
    return AT_LEAST_ONCE, (
        "messages are read from a Java Broker's memory, too: when it is killed it loses some that were read, and gives "
        "their offsets to others; as long as it is not killed, each message is read once (javaReads=flushed: always)"
    )
