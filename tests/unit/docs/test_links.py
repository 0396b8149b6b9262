"""The pages hang together: each is in the index, and each link leads to a file, and to a heading, that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "bench").glob("*.md")])
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def links(text: str) -> list[str]:
    """Where a page's links within the repository lead."""
    return [link for link in _LINK.findall(_CODE.sub("", text)) if "://" not in link and not link.startswith("mailto:")]


def anchors(text: str) -> set[str]:
    """The headings of a page as GitHub writes them in links."""
    found = set()
    for heading in _HEADING.findall(_BLOCK.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip().lower())
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    found = []
    for link in links(page.read_text("utf-8")):
        name, _, anchor = link.partition("#")
        there = page.parent / name if name else page
        if not there.exists() or (anchor and anchor not in anchors(there.read_text("utf-8"))):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_every_page_is_in_the_index() -> None:
    listed = {(DOCS / link.partition("#")[0]).resolve() for link in links((DOCS / "README.md").read_text("utf-8"))}
    assert {page for page in DOCS.rglob("*.md") if page != DOCS / "README.md"} - listed == set()


def test_a_link_to_nothing_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A `word` of [two](x.md), here\n```\n# no heading\n```\n", "utf-8")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](there.md) [b](there.md#a-word-of-two-here) `[c](code.md)` [d](https://example.org)\n"
        "[e](gone.md) [f](there.md#no-heading) [g](#nowhere)\n# Here\n[h](#here)\n",
        "utf-8",
    )
    assert broken(page) == ["gone.md", "there.md#no-heading", "#nowhere"]
