"""Files, folders and modules that a page, a docstring or a comment names exist, each where its name says."""

from __future__ import annotations

import ast
import re
import tokenize
from functools import cache
from io import StringIO
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src/pytubemq"
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md"), *ROOT.glob("bench/*.md")])
ROOMS = sorted(path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists())
FOLDERS = ("src", "tests", "scripts", "docs", "bench", "examples", "proto", "requirements")
EXAMPLES = frozenset({"move.py", "pytubemq.pipelines.sinks.mailbox"})
"""Names for files that a reader of the pages writes."""
LOGGERS = ("pytubemq.story",)
TABLES = ("pytubemq.lease",)
OTHERS = frozenset({
    "broker.durability", "broker.listen", "master.listen", "master.store",
    "decode.errors", "decode.inner", "decode.json", "decode.on_eror", "decode.schema",
    "spark.log", "spark.read", "spark.readStream", "spark.sql", "spark.x",
})  # fmt: skip
"""Begin like a room, and are settings of a server or of Spark, keys of a pipeline's file, or a file."""
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(rf"(?:src/pytubemq/)?((?:{'|'.join(ROOMS)})(?:/(?!test_)\w+)+(?:\.py)?)/?")
_FILE = re.compile(r"(?:\w+/)*(?!test_)\w+\.py")
_FOLDER = re.compile(rf"(?:{'|'.join(FOLDERS)})(?:/[\w.-]+)+/?")
_DOTTED = re.compile(r"\bpytubemq(?:\.\w+)+")
_IN_ROOM = re.compile(rf"(?<![\w./-])(?:pytubemq\.)?((?:{'|'.join(ROOMS)})\.\w+)((?:\.\w+)*)")
_PATH_IN_ROOM = re.compile(rf"(?<![\w./-])(?:src/pytubemq/)?((?:{'|'.join(ROOMS)})(?:/\w+)*/\w+\.py)\b")


@cache
def files() -> tuple[str, ...]:
    """The Python files of the repository, each with a slash before its path."""
    tops = (ROOT / folder for folder in FOLDERS)
    return tuple(f"/{path.relative_to(ROOT).as_posix()}" for top in tops for path in top.rglob("*.py"))


def missing(text: str) -> list[str]:
    """Return the paths below a room that a page names and that do not exist, written with or without `.py`."""
    found = [match[1] for code in _CODE.findall(text) if (match := _PATH.fullmatch(code))]
    return [path for path in found if not any((SOURCE / f"{path}{end}").exists() for end in ("", ".py"))]


def missing_files(text: str) -> list[str]:
    """Return the Python files (named by the end of their path) and the paths from the root that do not exist."""
    codes = _CODE.findall(text)
    modules = [code for code in codes if _FILE.fullmatch(code) and code not in EXAMPLES]
    gone = [code for code in modules if not any(file.endswith(f"/{code}") for file in files())]
    return gone + [code for code in codes if _FOLDER.fullmatch(code) and not (ROOT / code).exists()]


def is_there(dotted: str) -> bool:
    """Return True if a dotted name is a module of the package, or a name in the text of the module before it."""
    place, names = SOURCE, dotted.split(".")[1:]
    while names and (place / names[0]).is_dir():
        place /= names.pop(0)
    if names and (place / f"{names[0]}.py").exists():
        place /= f"{names.pop(0)}.py"
    module = place if place.suffix else place / "__init__.py"
    return not names or re.search(rf"\b{names[0]}\b", module.read_text("utf-8")) is not None


def missing_names(text: str) -> list[str]:
    """Return the modules and names of the package that a page writes with dots and that do not exist."""
    names = [
        name for name in _DOTTED.findall(text) if name not in EXAMPLES and not name.startswith((*LOGGERS, *TABLES))
    ]
    return [name for name in names if not is_there(name)]


def words_of(source: str) -> str:
    """Return the docstrings and comments of a module, one a line or more."""
    comments = [token.string for token in _tokens(source) if token.type == tokenize.COMMENT]
    return "\n".join([*comments, *(_docstrings(source))])


def _tokens(source: str) -> list[tokenize.TokenInfo]:
    return list(tokenize.generate_tokens(StringIO(source).readline))


def _docstrings(source: str) -> list[str]:
    """Return the texts that stand alone: of modules, classes, functions, and below a constant or a field."""
    values = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr)]
    return [value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]


def missing_modules(words: str) -> list[str]:
    """Return the names with dots and the paths that begin with a room and that do not exist."""
    dotted = [first + rest for first, rest in _IN_ROOM.findall(words) if first not in OTHERS]
    gone = [name for name in dotted if not is_there(f"pytubemq.{name}")]
    return gone + [path for path in _PATH_IN_ROOM.findall(words) if not (SOURCE / path).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    assert missing(text) + missing_files(text) + missing_names(text) == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_module_that_a_docstring_or_a_comment_names_exists(room: str) -> None:
    gone = {path.name: missing_modules(words_of(path.read_text("utf-8"))) for path in (SOURCE / room).rglob("*.py")}
    assert {name: names for name, names in gone.items() if names} == {}


def test_a_stale_name_in_a_docstring_or_a_comment_is_found() -> None:
    source = '"""See `wire.pack`."""\nvalue = "wire.no_words"\n"""As model.limits.MIB."""\n# as in wire/pack.py\n'
    assert missing_modules(words_of(source)) == ["wire.pack", "wire/pack.py"]
    assert missing_modules("the Broker, master.listen; spark.sql.shuffle; core.retry, storage.disk.disk.Disk") == []


def test_a_path_that_does_not_exist_is_found() -> None:
    there = "`wire/text`, `model/limits.py`, `src/pytubemq/core/balance/`, `wire/text/client_id`, `and/or`"
    assert missing(there) == []
    assert missing("`wire/no_such_thing` `model/limits/more.py`") == ["wire/no_such_thing", "model/limits/more.py"]


def test_a_file_that_does_not_exist_is_found() -> None:
    there = (
        "`client_id.py`, `text/client_id.py`, `scripts/docs/write`, `tests/unit/`, `test_no_file_yet.py`, "
        "`docs/tutorial`"
    )
    assert missing_files(there) == []
    gone = "`other/client_id.py` `no_such_module.py` `scripts/no_such_script` `docs/no-such-page.md`"
    assert missing_files(gone) == gone.replace("`", "").split()


def test_a_dotted_name_that_does_not_exist_is_found() -> None:
    there = (
        "pytubemq.connect, pytubemq.wire.text.client_id, pytubemq.model.limits.MIB, pytubemq.story.message "
        "pytubemq.sync"
    )
    assert missing_names(there) == []
    gone = "pytubemq.no_such_room pytubemq.wire.pack pytubemq.model.limits.NO_SUCH_LIMIT"
    assert missing_names(gone) == gone.split()
