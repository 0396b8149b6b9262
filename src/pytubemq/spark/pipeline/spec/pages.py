"""The reference pages made of the tables: keys, guarantees, codes of faults. A test sees that they are current."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pytubemq.spark.pipeline.spec.faults import MEANINGS, Severity, severity_of
from pytubemq.spark.pipeline.spec.keys import SECTIONS, Key, Kind, child

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.spark.pipeline.spec.keys import Section

_KINDS: Final = {
    Kind.COUNT: "number, as `200_000`",
    Kind.SIZE: "size, as `64MiB`",
    Kind.DURATION: "time, as `10s`, `500ms`, `2m`",
    Kind.INTERVAL: "interval, as `10 seconds` or `10s`",
    Kind.RATIO: "share, as `0.01` or `1%`",
    Kind.FUNCTION: "`module:function`",
    Kind.TEXTS: "list of text, or one",
}
_TITLES: Final = {"": "The file"}


def keys_page() -> str:
    """The tables of all sections, and of the codes."""
    parts: list[str] = []
    for section in SECTIONS.values():
        parts += [f"## {_title(section)}", "", section.doc, "", "| key | takes | default | |", "|---|---|---|---|"]
        parts += [_row(section, key) for key in section.keys]
        parts.append("")
    return "\n".join(parts)


def codes_table() -> str:
    """Every code of a fault."""
    lines = ["| code | name | what is wrong | what to do |", "|---|---|---|---|"]
    for code, said in MEANINGS.items():
        kind = "" if severity_of(code) is Severity.ERROR else " (warning)"
        lines.append(f"| `{code.value}` | `{said.name}`{kind} | {said.meaning} | {said.remedy} |")
    return "\n".join(lines)


def guarantees_table() -> str:
    """What each sink promises, then what reading promises."""
    from pytubemq.spark.pipeline.plan.guarantees import SINKS, SOURCES, Case

    lines = ["| sink | case | each row | why | needs |", "|---|---|---|---|---|"]
    for (sink, case), promise in SINKS.items():
        where = "" if case is Case.ALWAYS else case.value
        words = promise.guarantee.value.replace("_", " ")
        lines.append(f"| `{sink.value}` | {where} | {words} | {promise.why} | {promise.needs} |")
    lines += ["", "| source | each message | why | needs |", "|---|---|---|---|"]
    for kind, promise in SOURCES.items():
        words = promise.guarantee.value.replace("_", " ")
        lines.append(f"| {kind.value} | {words} | {promise.why} | {promise.needs} |")
    return "\n".join(lines)


def put(page: str, parts: dict[str, str]) -> str:
    """A page with what lies between `<!-- name -->` and `<!-- end -->` replaced.

    Raises:
        ValueError: the page lacks such a place.
    """
    for name, text in parts.items():
        before, begin, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        if not begin or not end:
            raise ValueError(f"the page has no place for {name}")
        page = f"{before}{begin}\n{text.strip()}\n\n{end}{after}"
    return page


def _title(section: Section) -> str:
    return _TITLES.get(section.path, f"`{section.path.replace('[]', '')}`" + (", each" if "[]" in section.path else ""))


def _row(section: Section, key: Key) -> str:
    default = "needed" if key.required else key.default
    return f"| `{key.name}` | {', '.join(_takes(section, key))} | {default} | {key.doc} |"


def _takes(section: Section, key: Key) -> Iterator[str]:
    if key.kind in {Kind.SECTION, Kind.SECTIONS}:
        anchor = re.sub(r"[^\w -]", "", _title(child(section, key))).replace(" ", "-")
        yield f"[{'list of sections' if key.kind is Kind.SECTIONS else 'section'}](#{anchor})"
    elif key.kind is Kind.CHOICE:
        yield from (f"`{word}`" for word in key.takes)
    else:
        yield _KINDS.get(key.kind, key.kind.value)
