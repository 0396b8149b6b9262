"""The watch sees what it is there for: each fault that it must find, made on purpose in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scenario.hostile.child import SOURCE

pytestmark = pytest.mark.scenario

FAULTS = {
    "open('/tmp/outside-of-it', 'w')": "open of '/tmp/outside-of-it'",
    "shutil.rmtree(folder.parent)": "shutil.rmtree of",
    "os.rename(folder / 'a', '/tmp/b')": "os.rename of '/tmp/b'",
    "os.listdir('/root')": "os.listdir of '/root'",
    "sqlite3.connect('/tmp/some.db')": "sqlite3.connect of '/tmp/some.db'",
    "subprocess.run(['true'])": "subprocess.Popen",
    "pickle.loads(pickle.dumps(Path))": "pickle.find_class",
    "logging.error('a fault of this program')": "logged: ERROR a fault of this program",
    "logging.getLogger().handlers[0].stream.write('forged\\n')": "a log line that is none: 'forged",
    "loop.call_soon(lambda: 1 / 0)": "unhandled in the loop",
    "threading.Thread(target=lambda: 1 / 0).start()": "thread died",
}
PROGRAM = """
import asyncio, json, logging, os, pickle, shutil, sqlite3, subprocess, sys, threading
from pathlib import Path
from tests.scenario.hostile.watch import Watch

async def main():
    folder = Path(sys.argv[1])
    loop = asyncio.get_running_loop()
    watch = Watch(folder, Path.cwd())
    watch.begin()
    (folder / "mine").write_text("inside of it")
    logging.info("nothing wrong")
    try:
        {fault}
    except OSError:
        pass
    await asyncio.sleep(0.05)  # what a callback or a thread does wrong comes a little later
    return watch.report()

print(json.dumps(asyncio.run(main())))
"""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(tmp_path: Path, fault: str) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    command = [sys.executable, "-c", PROGRAM.replace("{fault}", fault), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=SOURCE, check=True, timeout=60)
    problems = json.loads(done.stdout)["problems"]
    assert any(problem.startswith(FAULTS[fault]) for problem in problems), problems
    assert not Path("/tmp/outside-of-it").exists()
    assert tmp_path.exists()


def test_nothing_is_found_where_nothing_is_wrong(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM.replace("{fault}", "pass"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=SOURCE, check=True, timeout=60)
    report = json.loads(done.stdout)
    assert report["problems"] == []
    assert report["log_lines"] == 1
