"""The environment of a source's Python processes; Spark's session is played here."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

from pytubemq.pipelines.frames import environment
from pytubemq.pipelines.frames.environment import NAMES, complete_environment


class Map:
    """As the JVM's: it looks first, and puts then, so that two at a time could both put a name."""

    def __init__(self, values: dict[str, str]) -> None:
        self.values = values
        self.entries = len(values)
        self.alone: list[bool] = []

    def putIfAbsent(self, name: str, value: str) -> None:
        self.alone.append(environment._ONE_AT_A_TIME.locked())
        if name not in self.values:
            self.values[name] = value
            self.entries += 1


def _session(values: Map, asked: list[str]) -> Any:
    def look_up(name: str) -> Any:
        asked.append(name)
        return SimpleNamespace(dataSourceCls=lambda: SimpleNamespace(envVars=lambda: values))

    state = SimpleNamespace(dataSourceManager=lambda: SimpleNamespace(lookupDataSource=look_up))
    return SimpleNamespace(_jsparkSession=SimpleNamespace(sessionState=lambda: state))


def test_runs_that_begin_at_once_put_each_name_once_and_leave_what_is_there() -> None:
    values = Map({"PYTHONPATH": "/p", "SPARK_LOCAL_DIRS": "/local"})
    asked: list[str] = []
    together = threading.Barrier(4)

    def begin() -> None:
        together.wait()
        complete_environment(_session(values, asked), "tubemq")

    with ThreadPoolExecutor(4) as runs:
        for one in [runs.submit(begin) for _ in range(4)]:
            one.result()
    assert values.values == {"PYTHONPATH": "/p", **dict.fromkeys(NAMES, ""), "SPARK_LOCAL_DIRS": "/local"}
    assert values.entries == len(values.values)
    assert all(values.alone)
    assert asked == ["tubemq"] * 4
