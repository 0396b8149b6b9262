"""Asking a run to end after its batch.

The invariant: no process is signalled. The run finds the file `stop` between two batches, wherever it runs.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from pytubemq.errors import RefusedError, TubeError
from pytubemq.pipelines.operate.status import RunState, read_status
from pytubemq.pipelines.state.files import STOP

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.pipelines.operate.status import Status
    from pytubemq.pipelines.state.files import StateFiles

POLL_S: Final = 0.2


def ask_to_stop(files: StateFiles) -> Status:
    """Write `stop`, if a run is at work.

    Raises:
        RefusedError: no run is at work.
    """
    there = read_status(files)
    if not there.runs:
        raise RefusedError(
            f"pipeline {there.record.pipeline} does not run: it is {there.run_state.value}",
            hint="see:  pytubemq pipeline status FILE",
        )
    files.write(STOP, {"asked": time.time()})
    return read_status(files)


def wait_for_end(files: StateFiles, *, wait_s: float, sleep: Callable[[float], None] = time.sleep) -> Status:
    """Wait until the run has ended.

    Raises:
        TubeError: it has not ended in time, or it was killed meanwhile.
    """
    deadline_s = time.monotonic() + wait_s
    while (there := read_status(files)).runs:
        if time.monotonic() >= deadline_s:
            raise TubeError(
                f"pipeline {there.record.pipeline} still runs after {wait_s:g} s: its batch takes longer",
                hint="wait longer with --wait SECONDS; the request to stop remains",
            )
        sleep(POLL_S)
    if there.run_state is RunState.DEAD:
        raise TubeError(
            f"pipeline {there.record.pipeline} was killed: its process is gone, and it did not end",
            hint="when started again, it continues where it stopped",
        )
    return there
