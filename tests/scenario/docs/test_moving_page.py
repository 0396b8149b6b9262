"""The script of the how-to about moving, where nothing answers; with servers it runs in tests/interop."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

PAGE = (Path(__file__).parents[3] / "docs/how-to/replace-a-java-part.md").read_text("utf-8")
JAVA_BROKER_PORT = 8123


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_a_page_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    (script,) = blocks("python")
    (tmp_path / "move.py").write_text(script)
    found = subprocess.run(
        [sys.executable, "move.py", "drained", "http://127.0.0.1:1"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert found.returncode == 1
    (line,) = found.stderr.splitlines()
    assert line.startswith("http://127.0.0.1:1/broker.htm does not answer admin_query_pubinfo: ")


def test_the_second_broker_has_a_port_that_the_java_broker_leaves_free() -> None:
    (settings,) = (text for text in blocks("toml") if text.startswith("# broker-2.toml"))
    listen = tomllib.loads(settings)["broker"]["listen"]
    assert int(listen.rpartition(":")[2]) != JAVA_BROKER_PORT
    assert f"brokerPort={listen.rpartition(':')[2]}" in PAGE
