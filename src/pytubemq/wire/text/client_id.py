"""Client ids, from which Brokers and consoles read who a client is.

The invariant: an id that is formatted or checked here breaks none of the strings that it goes into.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytubemq.errors import FormatError
from pytubemq.model.limits import MAX_CLIENT_ID_CHARS
from pytubemq.model.names import is_plain, shown


@dataclass(frozen=True, slots=True)
class ClientId:
    """The parts of a client id. `group` and `kind` ("Pull", "Push" or "Balance") are None for a producer."""

    ip: str
    pid: int
    started_ms: int
    counter: int
    version: str
    group: str | None = None
    kind: str | None = None


def format_client_id(client: ClientId) -> str:
    """Format `[group_]ip-pid-milliseconds-counter-[Pull|Push|Balance-]version`; Brokers split it by `-` behind the `_`.

    Raises:
        FormatError: too long for any peer, or a part would break the strings an id goes into.
    """
    prefix = "" if client.group is None else f"{client.group}_"
    kind = "" if client.kind is None else f"{client.kind}-"
    text = f"{prefix}{client.ip}-{client.pid}-{client.started_ms}-{client.counter}-{kind}{client.version}"
    return check_client_id(text)


def check_client_id(text: str) -> str:
    """Return the trimmed id, if it is one that the servers take.

    Raises:
        FormatError: blank, too long, with a control character, or with `@` or `#`, which divide the strings an id goes
            into.
    """
    text = text.strip()
    if not text or len(text) > MAX_CLIENT_ID_CHARS or "@" in text or "#" in text or not is_plain(text):
        raise FormatError(
            f"not a client id: {shown(text)}",
            hint=f"it has 1 to {MAX_CLIENT_ID_CHARS} printable characters and neither '@' nor '#'",
        )
    return text
