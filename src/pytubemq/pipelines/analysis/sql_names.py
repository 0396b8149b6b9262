"""The tables that a query reads, found by a light look at its words; Spark itself says the last word at dry-run.

The rule: a name after FROM or JOIN, or after a comma in such a list, is read; names that the query gives itself with
WITH are its own; what stands in quotes, comments and functions (EXTRACT(x FROM y)) is not looked at.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?(?:\*/|$))
    |(?P<text>[rR]?'(?:\\.|''|[^'\\])*(?:'|$)|[rR]?"(?:\\.|""|[^"\\])*(?:"|$))
    |(?P<back>`(?:``|[^`])*(?:`|$))
    |(?P<word>[^\W\d]\w*)
    |(?P<other>\d[\w.]*|.)""",
    re.VERBOSE | re.DOTALL,
)
_ENDS_LIST: Final = {
    "where", "group", "having", "order", "sort", "cluster", "distribute", "limit", "offset", "union", "intersect",
    "except", "minus", "window", "select", "qualify", "set", "values", "lateral",
}  # fmt: skip
_NO_TABLE: Final = {"lateral", "unnest", "values", "select", "stream", "only", "table"}


class Read(NamedTuple):
    """A name that a query reads, and where in its text (from 1)."""

    name: str
    line: int
    column: int


class _Word(NamedTuple):
    text: str
    lower: str
    start: int
    is_name: bool


def names_read(sql: str) -> list[Read]:
    """Return the names of one part that `sql` reads, each where it first occurs; `db.table` and files are left out."""
    return _Scan(sql).names()


class _Scan:
    """One pass over a query's words."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.words = _words(sql)
        self.own = {word.lower for index, word in enumerate(self.words) if _is_common_table(self.words, index)}
        self.found: dict[str, Read] = {}
        self.expected = False
        """True if the next word should be a table."""
        self.depth = 0
        self.lists: set[int] = set()
        """Depths of parentheses at which a list of tables is being read."""
        self.functions: list[bool] = []
        """Of each open parenthesis, whether it is a function's."""

    def names(self) -> list[Read]:
        for index, word in enumerate(self.words):
            if self.expected and word.is_name and self._table(index, word):
                continue
            self._other(index, word)
        return list(self.found.values())

    def _table(self, index: int, word: _Word) -> bool:
        """Take a word as a table; False if it begins something else that is read from."""
        following = _next(self.words, index)
        if word.lower in {"stream", "only"}:
            return True
        self.expected = False
        if word.lower in _NO_TABLE and not (word.lower == "table" and following != "("):
            return False
        if not _is_dotted(self.words, index) and following != "(" and word.lower not in self.own:
            line = self.sql.count("\n", 0, word.start) + 1
            column = word.start - (self.sql.rfind("\n", 0, word.start) + 1) + 1
            self.found.setdefault(word.lower, Read(word.text, line, column))
        return True

    def _other(self, index: int, word: _Word) -> None:
        if word.text == "(":
            self._open(index)
        elif word.text == ")":
            self.lists.discard(self.depth)
            self.depth = max(0, self.depth - 1)
            del self.functions[-1:]
        elif word.lower == "join" or (word.lower == "from" and not _of_function(self.words, index, self.functions)):
            self.expected = True
            self.lists.add(self.depth)
        elif word.text == "," and self.depth in self.lists:
            self.expected = True
        elif word.lower in _ENDS_LIST:
            self.lists.discard(self.depth)

    def _open(self, index: int) -> None:
        before = self.words[index - 1] if index else None
        self.functions.append(before is not None and before.is_name and not _is_keyword(before) and not self.expected)
        self.depth += 1
        of_table = before is not None and before.lower == "table"  # an argument: f(TABLE(messages))
        if self.expected or of_table:  # else a list or a query: FROM (a JOIN b), FROM (SELECT ...)
            self.expected = _next(self.words, index) not in {"select", "with", "from", "values"}
            if self.expected:
                self.lists.add(self.depth)


def _words(sql: str) -> list[_Word]:
    words = []
    for found in _TOKEN.finditer(sql):
        if found.lastgroup == "skip":
            continue
        text = found[0]
        if found.lastgroup == "back":
            name = text.strip("`").replace("``", "`")
            words.append(_Word(name, name.lower(), found.start(), True))
        elif found.lastgroup == "text":
            words.append(_Word("'", "'", found.start(), False))
        else:
            words.append(_Word(text, text.lower(), found.start(), found.lastgroup == "word"))
    return words


def _next(words: list[_Word], index: int) -> str:
    return words[index + 1].lower if index + 1 < len(words) else ""


def _is_dotted(words: list[_Word], index: int) -> bool:
    return _next(words, index) == "." or (index > 0 and words[index - 1].text == ".")


def _is_common_table(words: list[_Word], index: int) -> bool:
    """True at `name AS (` or `name (a, b) AS (` after WITH or a comma."""
    word = words[index]
    if not word.is_name or index == 0 or words[index - 1].lower not in {"with", "recursive", ","}:
        return False
    at = index + 1
    if at < len(words) and words[at].text == "(":
        while at < len(words) and words[at].text != ")":
            at += 1
        at += 1
    return at + 1 < len(words) and words[at].lower == "as" and words[at + 1].text == "("


def _is_keyword(word: _Word) -> bool:
    return word.lower in _ENDS_LIST | _NO_TABLE | {
        "from", "join", "in", "exists", "and", "or", "not", "as", "on", "using", "over", "then", "else", "when", "with",
        "all", "any", "some", "distinct", "by", "between", "like", "case", "is",
    }  # fmt: skip


def _of_function(words: list[_Word], index: int, functions: list[bool]) -> bool:
    """True if this FROM belongs to EXTRACT, TRIM, SUBSTRING, OVERLAY, or to IS DISTINCT FROM."""
    if index and words[index - 1].lower == "distinct" and index > 1 and words[index - 2].lower in {"is", "not"}:
        return True
    if not (functions and functions[-1]):
        return False
    return not _selects_since_parenthesis(words, index)


def _selects_since_parenthesis(words: list[_Word], index: int) -> bool:
    depth = 0
    for word in reversed(words[:index]):
        if word.text == ")":
            depth += 1
        elif word.text == "(":
            if depth == 0:
                return False
            depth -= 1
        elif depth == 0 and word.lower == "select":
            return True
    return False


def words_of(sql: str) -> list[str]:
    """Return the words and signs of a query in lower case, without comments; texts are one quote each."""
    return [word.lower for word in _words(sql)]
