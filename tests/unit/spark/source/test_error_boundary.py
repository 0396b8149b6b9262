"""What Spark gets to print of an error."""

from __future__ import annotations

import inspect
import traceback
from typing import Any

import pytest

from pytubemq.errors import ConfigError, NotAllowedError, NotFoundError, RefusedError, refused
from pytubemq.spark.cluster_option import USER_HINT
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


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (NotAllowedError("this cluster requires authentication", code=415), USER_HINT),
        (
            NotAllowedError("the token is not valid any more", hint="start the job again", code=415),
            "start the job again",
        ),
        (NotAllowedError("user 'ann' lacks the permission", code=401), None),
    ],
)
def test_a_refused_user_without_a_remedy_gets_the_names_of_the_options(
    error: NotAllowedError, hint: str | None
) -> None:
    def refuse() -> None:
        raise error

    with pytest.raises(NotAllowedError) as caught:
        entrance(refuse)()
    assert caught.value is error
    assert caught.value.hint == hint


def test_what_a_peer_says_is_escaped_and_cut() -> None:
    def refuse() -> None:
        raise refused(400, "no\n26/01/31 00:00:00 ERROR forged \x1b[2J" + "x" * 100_000)

    with pytest.raises(RefusedError) as caught:
        entrance(refuse)()
    text = str(caught.value)
    assert text.isprintable()
    assert text.startswith(r"no\n26/01/31")
    assert len(text) < 5_000
    assert text.endswith("... (100,038 characters)")
    assert str(refused(400, " \t ")) == "refused with code 400"


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
