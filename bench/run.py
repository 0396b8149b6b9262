"""Measures the whole way on this machine: a cluster, its Broker as a process, and `pytubemq bench` as another.

    python bench/run.py                      produce, consume, e2e and sync produce; one JSON object a line
    python bench/run.py produce --messages 500000 --window 20000
    python bench/run.py --durability process produce

What follows the name of a measurement goes to `pytubemq bench` as it is.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from pytubemq.server.cluster import ThreadedCluster

ALL = (["produce"], ["consume"], ["e2e"], ["produce", "--sync", "--messages", "3000"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--durability", choices=["disk", "process", "memory"], default="disk")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--data", type=Path, default=None, help="directory on the disk to measure")
    parser.add_argument("measurement", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    settings = {"broker.durability": given.durability}
    with ThreadedCluster(data_dir=given.data, broker_in_child=True, settings=settings) as cluster:
        cluster.create_topic("bench", partitions=given.partitions)
        for measurement in [given.measurement] if given.measurement else ALL:
            command = [sys.executable, "-m", "pytubemq", "bench", *measurement, "--master", cluster.master]
            found = subprocess.run(command, stdout=subprocess.PIPE, check=False)
            if found.returncode != 0:
                return found.returncode
            print(json.dumps({"durability": given.durability, **json.loads(found.stdout)}), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
