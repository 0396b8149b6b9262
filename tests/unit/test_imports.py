"""What an import costs, and what tests may import.

A client or an executor loads neither the command line, nor a server, nor what they need. Tests import no tests.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SERVERS = ("broker", "master", "storage", "admin", "server", "cli", "demo", "testing")
HEAVY = {"click", "rich", "starlette", "uvicorn", "sqlite3", "pandas"}


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has after the statement."""
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(json.loads(ended.stdout))


@pytest.mark.process
@pytest.mark.parametrize(
    "statement",
    [
        "import pytubemq; pytubemq.connect",
        "import pytubemq.sync; pytubemq.sync.connect",
        "import pytubemq.spark.source.stream, pytubemq.spark.source.data_source; "
        "import pytubemq.spark.source.read.source_connection",
    ],
)
def test_clients_and_executors_load_no_server_and_no_command_line(statement: str) -> None:
    modules = loaded_by(statement)
    rooms = {name.split(".")[1] for name in modules if name.startswith("pytubemq.")}
    assert not rooms & set(SERVERS)
    assert not {name.split(".")[0] for name in modules} & HEAVY


@pytest.mark.process
def test_spark_finds_the_source_by_a_cheap_import() -> None:
    modules = loaded_by("import pyspark_tubemq")
    assert not {name.split(".")[0] for name in modules} & {"pytubemq", "pyspark", "pyarrow"}


@pytest.mark.process
def test_where_pyspark_is_missing_there_is_no_source_and_no_failure() -> None:
    hidden = "import sys; sys.modules['pyspark'] = None\n"
    modules = loaded_by(hidden + "import pyspark_tubemq\nassert not hasattr(pyspark_tubemq, 'DefaultSource')")
    assert "pyspark_tubemq" in modules


@pytest.mark.process
def test_spark_is_given_the_source() -> None:
    modules = loaded_by("import pyspark_tubemq\nassert pyspark_tubemq.DefaultSource.name() == 'tubemq'")
    assert "pytubemq.spark.source.data_source" in modules


def imports(path: Path) -> Iterator[str]:
    """Every module, or name in a module, that a file imports, anywhere in it; a relative one without its dots."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module or ''}.{name.name}" for name in node.names)


@pytest.mark.parametrize("folder", ["tests", "bench", "scripts"])
def test_no_test_module_is_imported(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in imports(path)
        if any(part.startswith("test_") for part in name.split("."))
    ]
    assert found == []


def test_what_all_tests_share_imports_nothing_of_a_folder_of_theirs() -> None:
    support = ROOT / "tests" / "support"
    found = {name for path in support.glob("*.py") for name in imports(path) if name.startswith("tests.")}
    assert {name for name in found if not name.startswith("tests.support.")} == set()
