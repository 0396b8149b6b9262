"""A message's attributes: `key=value` pairs joined with commas, two reserved keys first.

The invariant: what `format_attributes` accepts, `parse_attributes` gives back; nothing that a peer would read
otherwise is written, but for copies of what a peer has written.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Final

from pytubemq.errors import MessageError
from pytubemq.model.names import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

MSG_TYPE: Final = "$msgType$"
"""The reserved key of the filter item."""
MSG_TIME: Final = "$msgTime$"
"""The reserved key of the message time, `yyyyMMddHHmm`."""

# Before `strptime`, which would also take fewer digits, and digits of other scripts.
_TIME: Final = re.compile(r"[0-9]{12}", re.ASCII)


def format_attributes(
    attributes: Mapping[str, str] | None, *, msg_type: str | None, msg_time: str | None, copied: bool = False
) -> str:
    """Format the attribute string; "" when there are no attributes.

    Args:
        attributes: the user's own, kept in their order.
        msg_type: the filter item; blank counts as none.
        msg_time: `yyyyMMddHHmm`; blank counts as none.
        copied: the attributes may be those of another message, of a producer that is less strict: then keys and values
            may be blank and values have `=` in them, as `parse_attributes` gives them.

    Raises:
        MessageError: a key or value is blank or has `,`, `=` or a reserved key in it, or the time is none.
    """
    # The reserved keys come first and type before time, as Java writes them.
    items: list[str] = []
    if msg_type is not None and not msg_type.isspace() and msg_type:
        items.append(f"{MSG_TYPE}={_check_part('message type', msg_type.strip())}")
    if msg_time is not None and not msg_time.isspace() and msg_time:
        items.append(f"{MSG_TIME}={check_msg_time(msg_time.strip())}")
    if attributes:
        for key, value in attributes.items():
            # Peers check less than this: a copy of a message keeps what they let through, as long as it is read back as
            # it was.
            if not copied or not _is_read_back(key, value):
                _check_part("attribute key", key)
                _check_part(f"value of attribute {key!r:.80}", value)
            items.append(f"{key}={value}")
    return ",".join(items)


def parse_attributes(text: str) -> tuple[dict[str, str], str | None, str | None]:
    """Parse an attribute string: the user's attributes, the message type and the message time.

    Tolerant as the peers are, for the message is more than its attributes: an item without `=` is skipped, the first
    `=` divides, the last of equal keys counts, and a reserved key is found wherever it is.
    """
    found: dict[str, str] = {}
    msg_type: str | None = None
    msg_time: str | None = None
    for item in text.split(","):
        # At the first `=`, as C++ cuts. Go takes what is between the first two, so a value with `=` never comes
        # from our producers.
        key, divider, value = item.partition("=")
        # A message is not lost for one item that nobody can read.
        if not divider or not key:
            continue
        if key == MSG_TYPE:
            msg_type = value or None
        elif key == MSG_TIME:
            msg_time = value or None
        else:
            found[key] = value
    return found, msg_type, msg_time


def check_msg_time(text: str) -> str:
    """Return `text` if it is a message time, `yyyyMMddHHmm`.

    Raises:
        MessageError: it is none.
    """
    if _TIME.fullmatch(text):
        try:
            # Java's producer refuses what is no date as well; its Broker, with audit on, fails on one after it has
            # stored the message.
            datetime.strptime(text, "%Y%m%d%H%M")
        except ValueError:
            pass
        else:
            return text
    raise MessageError(f"not a message time: {shown(text)}", hint="write yyyyMMddHHmm, as in 202401011200", code=400)


def _is_read_back(key: str, value: str) -> bool:
    """True if an item that is written is read back as itself."""
    item = f"{key}{value}"
    return bool(key) and "=" not in key and "," not in item and MSG_TYPE not in item and MSG_TIME not in item


def _check_part(what: str, text: str) -> str:
    # Java finds the reserved keys by looking whether an item contains them, so they may be in no key and no value.
    if not text.strip() or "," in text or "=" in text or MSG_TYPE in text or MSG_TIME in text:
        raise MessageError(
            f"{what} cannot be sent: {shown(text)}",
            hint=f"it must not be blank nor contain a comma, '=', {MSG_TYPE} or {MSG_TIME}",
            code=400,
        )
    return text
