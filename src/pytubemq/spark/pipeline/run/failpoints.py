"""Places where a test can hold a run, to kill it there.

`PYTUBEMQ_PAUSE_AT=POINT` or `POINT:BATCH` names the place, as in `sink-written:lake:2`, and `PYTUBEMQ_PAUSE_FILE` a
file that the run makes when it gets there, with the place's name in it. It then waits to be killed or until that file
is taken away, no longer than `MAX_PAUSE_S`. The invariant: without the variables nothing is done here.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

MAX_PAUSE_S: Final = 300.0
LOOK_S: Final = 0.05
POINTS: Final = ("batch-begun", "sink-written", "ledger-written")


def reach(point: str, batch_id: int) -> None:
    """Say that the run is at `point` of a batch; holds it if this is the one to be held at."""
    wanted = os.environ.get("PYTUBEMQ_PAUSE_AT")
    if wanted is None or wanted not in (point, f"{point}:{batch_id}"):
        return
    name = os.environ.get("PYTUBEMQ_PAUSE_FILE")
    if not name or Path(name).exists():
        return
    Path(name).write_text(f"{point}:{batch_id}\n")
    until_s = time.monotonic() + MAX_PAUSE_S
    while Path(name).exists() and time.monotonic() < until_s:
        time.sleep(LOOK_S)
