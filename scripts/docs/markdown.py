"""Tables in Markdown, and their places in a page.

The invariant: only what stands between a place's two marks is ever replaced; the text around it is written by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

END: Final = "<!-- end -->"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; the cells are Markdown already."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def cell(text: str) -> str:
    """Return a text that may stand in a cell of a table."""
    return text.replace("|", "\\|")


def put(page: str, parts: Mapping[str, str]) -> str:
    """Replace what stands between `<!-- name -->` and the next `<!-- end -->`, for each part.

    Raises:
        ValueError: the page has no such place.
    """
    for name, text in parts.items():
        before, start, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(END)
        if not start or not end:
            raise ValueError(f"the page has no place for {name}: <!-- {name} --> and {END}")
        page = f"{before}{start}\n{text.strip()}\n\n{end}{after}"
    return page
