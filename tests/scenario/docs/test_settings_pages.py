"""The commands of the how-tos about retention, durability and moving groups run as they stand, one after the other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytubemq import sync
from pytubemq.server.cluster import ThreadedCluster

HOW_TO = Path(__file__).parents[3] / "docs/how-to"


def commands(page: str) -> list[str]:
    """The blocks for a shell."""
    return re.findall(r"^```sh\n(.*?)^```$", (HOW_TO / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)


def run(script: str, cluster: ThreadedCluster, home: Path) -> str:
    """Standard output of a block; it must not fail."""
    python = f"{sys.executable} -m pytubemq"
    script = re.sub(r"^pytubemq (.*)$", rf"{python} \1 --http http://127.0.0.1:8080", script, flags=re.MULTILINE)
    done = subprocess.run(
        ["sh", "-e", "-c", script.replace("http://127.0.0.1:8080", cluster.http)],
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_CONFIG_HOME": str(home), "NO_COLOR": "1"},
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, (script, done.stderr)
    assert '"code"' not in done.stdout, "curl ends well with an error of the API, too"
    return done.stdout


@pytest.fixture
def cluster(tmp_path: Path) -> ThreadedCluster:  # type: ignore[misc]
    with ThreadedCluster(data_dir=tmp_path / "data") as running:
        yield running


def test_how_messages_are_kept(cluster: ThreadedCluster, tmp_path: Path) -> None:
    create, alter, everywhere = commands("retention-and-durability.md")
    shown = run(create, cluster, tmp_path)
    page = (HOW_TO / "retention-and-durability.md").read_text("utf-8")
    for line in re.findall(r"^(?:retention|durability)\S* .*$", page, re.MULTILINE):
        name, value = line.split()
        assert re.search(rf"^{name} +{value}$", shown, re.MULTILINE), line
    run(alter, cluster, tmp_path)
    assert re.search(r"^durability +process$", run(everywhere, cluster, tmp_path), re.MULTILINE)
    shown = run("pytubemq topic show orders", cluster, tmp_path)
    assert re.search(r"^retention_from +default$", shown, re.MULTILINE)
    assert re.search(r"^partitions +8$", shown, re.MULTILINE)


def test_how_a_group_is_moved(cluster: ThreadedCluster, tmp_path: Path) -> None:
    cluster.create_topic("orders", partitions=1)
    with sync.connect(cluster.master) as tube, tube.producer("orders") as producer:
        for _ in range(10):
            producer.send(b"order")
        tube.reset_group("reports", "orders", 280)
    look, move, one, history, http = commands("reset-offsets.md")
    assert re.search(r"^1:orders:0 +280 +0 +0 +10$", run(look, cluster, tmp_path), re.MULTILINE)
    assert re.search(r"^1:orders:0 +280 +0 +0 +10$", run(move, cluster, tmp_path), re.MULTILINE)
    assert re.search(r"^1:orders:0 +0 +140 +10 +5$", run(one, cluster, tmp_path), re.MULTILINE)
    told = run(history, cluster, tmp_path).splitlines()
    assert told[0].split() == ["time", "user", "partition", "asked", "old_offset", "new_offset"]
    assert [line.split("1:orders:0")[1].split()[0] for line in told[1:]] == ["number:5", "-10m", "offset"]
    assert '"dry_run":true' in run(http, cluster, tmp_path)
