"""`pytubemq dev --secure`, then what README shows: the commands, the Python program and the snippets for Spark.

All of it uses what the command wrote: the profile, and the address with the CA, the user and the file of its secret.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from pytubemq.errors import ExitCode
from tests.scenario.cluster.conftest import CommandLine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[3]
SNIPPETS = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SINK_ROWS = 1000
"""Of the example on the sink's page."""
PLAIN = "127.0.0.1:8715"
"""The address on the pages, which are written for `pytubemq dev`."""


@dataclass
class Running:
    """A cluster that `pytubemq dev --secure` started, and the command line of who started it."""

    line: CommandLine
    ready: dict[str, str]

    @property
    def address(self) -> str:
        """The address of the Master in the profile."""
        profiles = tomllib.loads((self.line.home / "config/pytubemq/profiles.toml").read_text())
        return str(profiles["profiles"]["dev"]["master"])

    @property
    def secrets(self) -> list[str]:
        """What nobody may read anywhere: the user's secret and the token of the JSON API."""
        return [Path(self.ready[name]).read_text().strip() for name in ("secret_file", "token_file")]


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    line = CommandLine(tmp_path_factory.mktemp("dev"))
    try:
        _, ready = line.dev("--secure", "--set", "master.tls_port=0", "--set", "broker.tls_port=0")
        yield Running(line, ready)
    finally:
        line.end()


def snippet(page: str, *words: str) -> str:
    """The one example of a page that has all of these words."""
    found = [code for code in SNIPPETS.findall((ROOT / page).read_text("utf-8")) if all(word in code for word in words)]
    assert len(found) == 1, (page, words, len(found))
    assert PLAIN in found[0]
    return str(found[0])


@pytest.fixture(scope="module")
def readme(dev: Running) -> dict[str, subprocess.CompletedProcess[bytes]]:
    """What came of README's commands, and then of its program, before anybody else sent something."""
    produced = dev.line("produce", "demo", stdin=b"hello\n")
    consumed = dev.line("consume", "demo", "-n", "1")
    program = snippet("README.md", "import asyncio").replace(PLAIN, dev.address)
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=dev.line.environ, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    return {"produce": produced, "consume": consumed, "program": ran}


def test_the_commands_and_the_program(readme: dict[str, subprocess.CompletedProcess[bytes]]) -> None:
    assert {name: done.returncode for name, done in readme.items()} == dict.fromkeys(readme, ExitCode.DONE), readme
    assert readme["produce"].stderr == b"sent 1 to demo\n"
    assert readme["consume"].stdout == b"hello\n"
    assert b"b'hello'" in readme["program"].stdout


@pytest.mark.usefixtures("readme")
def test_the_snippets_of_spark(spark: SparkSession, dev: Running, tmp_path: Path) -> None:
    names: dict[str, object] = {"spark": spark}

    def run(page: str, *words: str) -> None:
        exec(compile(snippet(page, *words).replace(PLAIN, dev.address), page, "exec"), names)

    before = spark.read.format("tubemq").options(master=dev.address, topic="demo").load().count()
    run("docs/how-to/spark-sink.md", "spark.range(1000)")
    run("docs/how-to/spark.md", "messages = spark.read")
    messages: DataFrame = names["messages"]  # type: ignore[assignment]
    assert messages.count() == before + SINK_ROWS
    run("README.md", "spark.readStream")
    rows: DataFrame = names["rows"]  # type: ignore[assignment]
    query = (
        rows.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "rows"))
    )
    assert query.awaitTermination(240)
    assert spark.read.parquet(str(tmp_path / "rows")).count() == before + SINK_ROWS

    shown = messages._jdf.queryExecution().toString() + "".join(one.json for one in query.recentProgress)
    assert "tubemq" in shown
    written = [path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert written
    for secret in dev.secrets:
        assert secret not in shown
        assert not [text for text in written if secret.encode() in text]


def test_an_address_without_the_user_is_told_which_options_name_one(spark: SparkSession, dev: Running) -> None:
    without = dev.address.partition("&user=")[0]
    told = r"this cluster requires authentication[^\n]*\nthe options user and secretFile name the user"
    for action in (
        spark.read.format("tubemq").options(master=without, topic="demo").load().count,
        spark.range(1).selectExpr("'x' AS body").write.format("tubemq").options(master=without, topic="demo")
        .mode("append").save,
    ):  # fmt: skip
        with pytest.raises(PySparkException, match=told):
            action()
