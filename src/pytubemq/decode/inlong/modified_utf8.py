"""Java's modified UTF-8: NUL as two bytes, characters beyond the first plane as two surrogates."""

from __future__ import annotations

from pytubemq.decode.inlong.group import InLongError


def read_utf(data: bytes) -> str:
    """Decode the text.

    Raises:
        InLongError: the bytes are no text.
    """
    try:
        return data.decode()
    except UnicodeDecodeError:
        pass
    try:
        pairs = data.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return pairs.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeError as error:
        raise InLongError("attributes that are not text") from error


def write_utf(text: str) -> bytes:
    """Encode a text."""
    if text.isascii() and "\0" not in text:
        return text.encode()
    units = text.encode("utf-16-le", "surrogatepass")
    pairs = "".join(chr(int.from_bytes(units[at : at + 2], "little")) for at in range(0, len(units), 2))
    return pairs.encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
