"""Checks of the names in a request, for every server that gets one.

The invariant: the same fault has the same code and the same sentence, whichever server finds it.
"""

from __future__ import annotations

from pytubemq.core.refusal import Refused
from pytubemq.errors import Code
from pytubemq.model.limits import MAX_CLIENT_ID_CHARS, MAX_GROUP_CHARS, MAX_HOST_CHARS, MAX_TOPIC_CHARS
from pytubemq.model.names import is_plain, shown, unplain


def check_client_id(value: str, *, in_lists: bool = False) -> str:
    """Return `clientId`, trimmed; with `in_lists` it goes into strings that `@` and `#` divide. Raises Refused."""
    value = check_field(value, "clientId", MAX_CLIENT_ID_CHARS)
    if in_lists:
        _check_undivided(value, "clientId")
    return value


def check_group_name(value: str, *, in_lists: bool = False) -> str:
    """Return `groupName`, trimmed; `in_lists` as above. Raises Refused."""
    value = check_field(value, "groupName", MAX_GROUP_CHARS)
    if in_lists:
        _check_undivided(value, "groupName")
    return value


def check_host_name(value: str) -> str:
    """Return `hostName`, trimmed. Raises Refused."""
    return check_field(value, "hostName", MAX_HOST_CHARS)


def check_topic_name(value: str) -> str:
    """Return `topicName`, trimmed. Raises Refused."""
    return check_field(value, "topicName", MAX_TOPIC_CHARS)


def check_field(value: str, field: str, most_chars: int) -> str:
    """Return the text of a field that must be there, trimmed.

    Raises:
        Refused: 400, it is blank, too long, or has characters that a log or a page could not show.
    """
    # The original uses names trimmed, so with and without blanks they are one client, group or topic there as well.
    value = value.strip()
    if not value:
        raise Refused(Code.BAD_REQUEST, f"{field} is missing")
    # In characters, nearly as the original counts (UTF-16 units); the bytes are bounded with the frame.
    if len(value) > most_chars:
        raise Refused(Code.BAD_REQUEST, f"{field} has {len(value)} characters, {most_chars} are allowed")
    # The original takes them. They would go into logs, pages and files from here.
    if not is_plain(value):
        raise Refused(Code.BAD_REQUEST, unplain(value, field))
    return value


def _check_undivided(value: str, field: str) -> None:
    # The original does not look, and divides its subscription strings at them: such a name is read back as another.
    if "@" in value or "#" in value:
        raise Refused(Code.BAD_REQUEST, f"{field} {shown(value)} has @ or # in it, give another one")
