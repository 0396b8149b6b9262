"""Places where a test can hold a run, to kill it there.

The points:

- `batch-begun`: nothing of the batch is done.
- `sink-staged:SINK`: inside of the sink's write. All rows are in the target, the one step that shows them is to come:
  Parquet's rename, Iceberg's snapshot, the commit of the database's transaction that has moved them.
- `sink-written:SINK`: behind the sink's write, before the ledger knows of it.
- `ledger-written`: behind the ledger's last entry of the batch, before Spark's commit.

`PYTUBEMQ_PAUSE_AT` names places, separated by commas, each as `POINT` or `POINT:BATCH`: `sink-written:lake:2`.
`PYTUBEMQ_PAUSE_DIR` is a directory in which the run makes a file `POINT:BATCH` when it gets there. It then waits to be
killed or until that file is taken away, no longer than `MAX_PAUSE_S`. The invariant: without the variables nothing is
done here.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

MAX_PAUSE_S: Final = 300.0
LOOK_S: Final = 0.05
POINTS: Final = ("batch-begun", "sink-staged", "sink-written", "ledger-written")


def reach(point: str, batch_id: int) -> None:
    """Announce that the run is at `point` of a batch; wait there if it is one to pause at."""
    wanted = os.environ.get("PYTUBEMQ_PAUSE_AT")
    if wanted is None:
        return
    name = f"{point}:{batch_id}"
    directory = os.environ.get("PYTUBEMQ_PAUSE_DIR")
    if not directory or {point, name}.isdisjoint(wanted.split(",")):
        return
    held = Path(directory, name)
    held.touch()
    until_s = time.monotonic() + MAX_PAUSE_S
    while held.exists() and time.monotonic() < until_s:
        time.sleep(LOOK_S)
