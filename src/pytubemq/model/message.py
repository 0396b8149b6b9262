"""A message as a user sees it, and the receipt for one that was sent.

The invariants: neither can be changed; a message's attributes are parsed only when they are first used, since most
readers of most messages only want the body.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytubemq.model.ids import Partition

    Parsed = tuple[Mapping[str, str], str | None, str | None]

_NO_ATTRIBUTES: Final[Mapping[str, str]] = MappingProxyType({})
_NOTHING: Final[Parsed] = (_NO_ATTRIBUTES, None, None)


class Message:
    """A message read from a partition.

    `offset` and `appended_at_ms` (since 1970) are None where the Broker does not send them (Java Brokers).
    """

    __slots__ = ("_appended_at_ms", "_body", "_message_id", "_offset", "_parse", "_parsed", "_partition", "_text")
    __match_args__ = ("partition", "body")

    def __init__(
        self,
        partition: Partition,
        body: bytes,
        attributes: Mapping[str, str] = _NO_ATTRIBUTES,
        offset: int | None = None,
        appended_at_ms: int | None = None,
        message_id: int = 0,
        msg_type: str | None = None,
        msg_time: str | None = None,
    ) -> None:
        self._partition = partition
        self._body = body
        self._offset = offset
        self._appended_at_ms = appended_at_ms
        self._message_id = message_id
        self._parsed: Parsed | None = (attributes, msg_type, msg_time)
        self._text: str | None = None
        self._parse: Callable[[str], Parsed] | None = None

    @property
    def partition(self) -> Partition:
        """The partition that stores it."""
        return self._partition

    @property
    def body(self) -> bytes:
        """The body, without the attributes."""
        return self._body

    @property
    def offset(self) -> int | None:
        """Its offset in the partition."""
        return self._offset

    @property
    def appended_at_ms(self) -> int | None:
        """The time at which its Broker stored it."""
        return self._appended_at_ms

    @property
    def message_id(self) -> int:
        """The Broker's number for it."""
        return self._message_id

    @property
    def attributes(self) -> Mapping[str, str]:
        """The sender's attributes."""
        return (self._parsed or self._read())[0]

    @property
    def msg_type(self) -> str | None:
        """The filter item, if it was sent with one."""
        return (self._parsed or self._read())[1]

    @property
    def msg_time(self) -> str | None:
        """The sender's time, `yyyyMMddHHmm`, if it was sent with one."""
        return (self._parsed or self._read())[2]

    def _read(self) -> Parsed:
        text, parse = self._text, self._parse
        parsed = self._parsed = _NOTHING if text is None or parse is None else parse(text)
        return parsed

    def _fields(self) -> tuple[object, ...]:
        return (self._partition, self._body, self._offset, self._appended_at_ms, self._message_id)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        if self._fields() != other._fields():
            return False
        return (self._parsed or self._read()) == (other._parsed or other._read())

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return (
            f"Message(partition={self.partition!r}, body={self.body!r}, attributes={dict(self.attributes)!r}, "
            f"offset={self.offset!r}, appended_at_ms={self.appended_at_ms!r}, message_id={self.message_id!r}, "
            f"msg_type={self.msg_type!r}, msg_time={self.msg_time!r})"
        )

    def __reduce__(self) -> tuple[object, ...]:
        attributes, msg_type, msg_time = self._parsed or self._read()
        partition, body, offset, appended_at_ms, message_id = self._fields()
        return Message, (partition, body, dict(attributes), offset, appended_at_ms, message_id, msg_type, msg_time)


def plain_messages(
    partition: Partition,
    bodies: Sequence[bytes],
    offsets: Sequence[int | None],
    message_ids: Sequence[int],
    appended_at_ms: int | None,
) -> list[Message]:
    """Return messages without attributes, all stored at the same time; made by the thousand, so without a call each."""
    made: list[Message] = []
    append, new = made.append, Message.__new__
    for body, offset, message_id in zip(bodies, offsets, message_ids, strict=True):
        message = new(Message)
        message._partition = partition
        message._body = body
        message._offset = offset
        message._appended_at_ms = appended_at_ms
        message._message_id = message_id
        message._parsed = _NOTHING
        append(message)
    return made


def unread_message(
    partition: Partition,
    body: bytes,
    text: str | None,
    parse: Callable[[str], Parsed],
    offset: int | None,
    appended_at_ms: int | None,
    message_id: int,
) -> Message:
    """Return a message whose attributes in `text` are parsed with `parse` when they are first used."""
    message = Message.__new__(Message)
    message._partition = partition
    message._body = body
    message._offset = offset
    message._appended_at_ms = appended_at_ms
    message._message_id = message_id
    message._text = text
    message._parse = parse
    message._parsed = None if text else _NOTHING
    return message


class Receipt(NamedTuple):
    """The Broker's response for an accepted message.

    `repeated`: it was stored before, and a response was lost; it is in the partition once. `offset` is None where the
    Broker does not send it (older Java Brokers; a duplicate of long ago).
    """

    partition: Partition
    message_id: int
    offset: int | None
    appended_at_ms: int | None
    repeated: bool = False
