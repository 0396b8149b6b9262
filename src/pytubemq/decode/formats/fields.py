"""Fields of one record with quotes and escapes, split by hand.

A quote counts where a field (or a value of a pair) begins; inside, two quotes are one. An escape takes the next
character as it is, inside of quotes and outside.
"""

from __future__ import annotations


class FieldError(ValueError):
    """The record cannot be split; the text says why."""


def split_fields(text: str, delimiter: str, *, quote: str | None, escape: str | None, keep: bool = False) -> list[str]:
    """Split a record into its fields. `keep` leaves quotes and escapes in them, and lets a quote begin anywhere.

    Raises:
        FieldError: a quote that does not end, text after one that ended, or an escape at the end.
    """
    if (quote is None or quote not in text) and (escape is None or escape not in text):
        return text.split(delimiter)
    fields: list[str] = []
    at = 0
    while True:
        began = at
        field, at = (_kept if keep else _field)(text, at, delimiter, quote, escape)
        fields.append(text[began:at] if keep else field)
        if at >= len(text):
            return fields
        at += 1  # the delimiter
        if at == len(text):
            return [*fields, ""]


def split_pair(text: str, delimiter: str, *, quote: str | None, escape: str | None) -> tuple[str, str]:
    """Name and value of a pair.

    Raises:
        FieldError: there is no delimiter, or as with `split_fields`.
    """
    name, at = _field(text, 0, delimiter, quote, escape)
    if at >= len(text):
        raise FieldError(f"the field {text[:60]!r} has no {delimiter!r}")
    value, at = _field(text, at + 1, None, quote, escape)
    return name, value


def _field(text: str, at: int, delimiter: str | None, quote: str | None, escape: str | None) -> tuple[str, int]:
    """Return one field, and the position of the delimiter after it."""
    characters: list[str] = []
    if quote is not None and text.startswith(quote, at):
        at = _quoted(text, at + 1, quote, escape, characters)
        if at < len(text) and text[at] != delimiter:
            raise FieldError(f"text after a closing quote, at character {at + 1}")
        return "".join(characters), at
    while at < len(text) and text[at] != delimiter:
        if text[at] == escape:
            at += 1
            if at == len(text):
                raise FieldError("an escape at the end of the record")
        characters.append(text[at])
        at += 1
    return "".join(characters), at


def _kept(text: str, at: int, delimiter: str, quote: str | None, escape: str | None) -> tuple[str, int]:
    """Find the delimiter after a field that has quotes anywhere."""
    while at < len(text) and text[at] != delimiter:
        if text[at] == escape:
            at += 1
        elif text[at] == quote and quote is not None:
            at = _quoted(text, at + 1, quote, escape, []) - 1
        at += 1
    return "", min(at, len(text))


def _quoted(text: str, at: int, quote: str, escape: str | None, characters: list[str]) -> int:
    began = at
    while at < len(text):
        if text[at] == escape:
            at += 1
            if at == len(text):
                break
        elif text[at] == quote:
            if not text.startswith(quote, at + 1):
                return at + 1
            at += 1
        characters.append(text[at])
        at += 1
    raise FieldError(f"a quote at character {began} that does not end")
