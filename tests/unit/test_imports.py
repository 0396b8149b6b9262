"""What an import costs: a client or an executor loads neither the command line, nor a server, nor what they need."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

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
        "import pytubemq.spark.source.stream, pytubemq.spark.source.data_source, pytubemq.spark.source.read.cluster",
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
