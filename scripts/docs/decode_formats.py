"""The tables of docs/reference/decode-formats.md, from the table of formats that decoding itself uses."""

from __future__ import annotations

from pytubemq.decode.format_table import FORMATS, Format, Option, Takes
from scripts.docs.markdown import cell, table


def tables() -> dict[str, str]:
    """Return a section for each format."""
    sections = []
    for each in FORMATS.values():
        rows = table(("option", "default", "takes", "what it does"), [_row(option) for option in each.options])
        sections.append(f"## {each.name}\n\n{_about(each)}\n\n{rows}\n")
    return {"formats": "\n".join(sections)}


def _about(each: Format) -> str:
    text = each.meaning[0].upper() + each.meaning[1:] + "."
    if each.needs_schema:
        return f"{text} Needs a schema."
    return text


def _row(option: Option) -> list[str]:
    default = "not set" if option.default is None else f"`{option.default}`" if option.default.strip() else "empty"
    takes = ", ".join(f"`{word}`" for word in option.words) if option.takes is Takes.WORD else option.takes.value
    return [cell(text) for text in (f"`{option.name}`", default, takes, option.meaning)]
