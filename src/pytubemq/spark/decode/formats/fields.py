"""Fields of one record with quotes and escapes, split by hand.

A quote counts where a field begins; inside, two quotes are one. An escape takes the next character as it is, inside of
quotes and outside.
"""

from __future__ import annotations


class FieldError(ValueError):
    """The record cannot be split."""


def split_fields(text: str, delimiter: str, *, quote: str | None, escape: str | None) -> list[str]:
    """The fields of a record.

    Raises:
        FieldError: a quote that does not end, text after one that ended, or an escape at the end.
    """
    if (quote is None or quote not in text) and (escape is None or escape not in text):
        return text.split(delimiter)
    fields: list[str] = []
    at = 0
    while True:
        field, at = _field(text, at, delimiter, quote, escape)
        fields.append(field)
        if at >= len(text):
            return fields
        at += 1  # the delimiter
        if at == len(text):
            return [*fields, ""]


def _field(text: str, at: int, delimiter: str, quote: str | None, escape: str | None) -> tuple[str, int]:
    """One field, and where the delimiter after it stands."""
    taken: list[str] = []
    if quote is not None and text.startswith(quote, at):
        at = _quoted(text, at + 1, quote, escape, taken)
        if at < len(text) and text[at] != delimiter:
            raise FieldError(f"text after a closing quote, at character {at + 1}")
        return "".join(taken), at
    while at < len(text) and text[at] != delimiter:
        if text[at] == escape:
            at += 1
            if at == len(text):
                raise FieldError("an escape at the end of the record")
        taken.append(text[at])
        at += 1
    return "".join(taken), at


def _quoted(text: str, at: int, quote: str, escape: str | None, taken: list[str]) -> int:
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
        taken.append(text[at])
        at += 1
    raise FieldError(f"a quote at character {began} that does not end")
