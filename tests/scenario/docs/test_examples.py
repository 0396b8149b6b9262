"""Every Python program in the README and the tutorial runs as it stands, against a real cluster."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytubemq.server.cluster import ThreadedCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("tutorial/*.md")), *sorted(DOCS.glob("reference/*.md"))]
PAGES += [DOCS / "how-to/client-balance.md", DOCS / "how-to/reset-offsets.md"]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def programs() -> Iterator[object]:
    """Blocks that are whole programs: they import what they use; the rest are fragments."""
    for page in PAGES:
        for number, block in enumerate(BLOCK.findall(page.read_text())):
            if re.search(r"^(import|from) pytubemq", block, re.MULTILINE):
                yield pytest.param(block, id=f"{page.stem}-{number}")


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadedCluster]:
    with ThreadedCluster() as running:
        running.create_topic("demo", partitions=4)
        yield running


@pytest.mark.parametrize("program", list(programs()))
def test_a_program_from_the_pages_runs(cluster: ThreadedCluster, program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program.replace("127.0.0.1:8715", cluster.master)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_there_are_programs_to_run() -> None:
    assert any("README" in str(getattr(case, "id", "")) for case in programs())
