"""What Spark gets to print of an error."""

from __future__ import annotations

import inspect
import traceback
from typing import Any

import pytest

from pytubemq.errors import ConfigError, NotFoundError, RefusedError
from pytubemq.spark.error_boundary import entrance
from pytubemq.spark.source import batch
from pytubemq.spark.source.data_source import TubeMqDataSource
from pytubemq.spark.source.options import parse_options
from pytubemq.spark.source.planning.survey import known_topics
from pytubemq.spark.source.stream import TubeMqStreamReader

OPTIONS = {"master": "127.0.0.1:1", "topic": "ordres"}


def frames(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def test_an_error_of_ours_shows_neither_the_way_it_came_nor_what_lies_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = "test_an_error_of_ours_shows_neither_the_way_it_came_nor_what_lies_behind_it"
    with pytest.raises(ConfigError, match="needs the option master") as found:
        TubeMqDataSource({"topic": "t"}).schema()
    assert frames(found.value) == [here, "entered"]

    class Away:
        def __init__(self, options: Any) -> None:
            try:
                raise OSError("refused by the kernel")
            except OSError as error:
                raise NotFoundError("it is not there", hint="make it") from error

    monkeypatch.setattr(batch, "Survey", Away)
    with pytest.raises(NotFoundError) as missing:
        batch.TubeMqReader(parse_options(OPTIONS)).partitions()
    assert frames(missing.value) == [here, "entered"]
    shown = "".join(traceback.format_exception(missing.value))
    assert shown.endswith("NotFoundError: it is not there\nmake it\n")
    assert "kernel" not in shown


def test_any_other_exception_keeps_its_trace() -> None:
    def fails() -> None:
        raise KeyError("a fault of this package")

    with pytest.raises(KeyError) as found:
        entrance(fails)()
    assert frames(found.value)[-1] == "fails"


def test_spark_still_sees_what_a_method_takes() -> None:
    reader = TubeMqStreamReader(parse_options(OPTIONS))
    assert list(inspect.signature(reader.latestOffset).parameters) == ["start", "limit"]


def test_the_topics_are_known_if_the_master_names_them() -> None:
    class Tube:
        names: tuple[str, ...] | None = ("orders", "demo")

        def topics(self) -> list[str]:
            if self.names is None:
                raise RefusedError("a Java Master")
            return list(self.names)

    tube: Any = Tube()
    assert known_topics(tube) == ["orders", "demo"]
    tube.names = None
    assert known_topics(tube) is None
