"""Two sinks in one place: told by what the places are, not by how they are written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytubemq.pipelines.file.model import DeadLetter, Pipeline, Sink, Source
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.rules.rule import Context, Need
from pytubemq.pipelines.rules.sinks import own_place

if TYPE_CHECKING:
    from pathlib import Path


def faults(*sinks: Sink, letters: DeadLetter | None = None, state: str | None = None) -> list[str]:
    pipeline = Pipeline("p", Source(), sinks=sinks, dead_letter=letters, state=state)
    context = Context(pipeline, unplaced(pipeline), Need.FILE | Need.VALUES)
    return [f"{fault.key}: {fault.message}" for fault in own_place.check(context)]


def parquet(name: str, path: str) -> Sink:
    return Sink(name, "parquet", path=path)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("{0}/lake", "{0}/lake"),
        ("{0}/lake", "{0}/./lake/"),
        ("{0}/lake", "file:{0}/lake"),
        ("{0}/lake", "file://{0}/lake"),
        ("{0}/lake", "${{env:LAKE}}"),
        ("{0}/lake", "{0}/link/lake"),
        ("hdfs://h/lake", "HDFS://h/x/../lake/"),
    ],
)
def test_two_sinks_in_one_place_are_refused(
    one: str, other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE", f"{tmp_path}/lake")
    (tmp_path / "link").symlink_to(tmp_path)
    lake, place = parquet("a", one.format(tmp_path)), other.format(tmp_path)
    assert faults(lake, parquet("b", place)) == ["sinks.b.path: is also the target of the sink a"]
    letters = ["dead_letter.path: is also the target of the sink a"]
    assert faults(lake, letters=DeadLetter(path=place)) == letters
    beside = replace(lake, path=f"{tmp_path}/state/dead_letter/")
    assert faults(beside, letters=DeadLetter(), state=f"{tmp_path}/state") == letters


def test_tables_are_told_apart_by_database_and_topics_are_shared() -> None:
    def table(name: str, url: str, text: str) -> Sink:
        return Sink(name, "jdbc", url=url, table=text)

    topics = [Sink(name, "tubemq", topic="t") for name in ("x", "y")]
    assert faults(table("a", "jdbc:a", "t"), table("b", "jdbc:b", "t"), parquet("c", "/t"), *topics) == []
    twice = faults(table("a", "jdbc:a", "t"), table("b", "jdbc:a", "T"))
    assert twice == ["sinks.b.table: is also the target of the sink a"]
