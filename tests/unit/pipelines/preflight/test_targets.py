"""Two sinks in one place: told by what the places are, not by how they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ConfigError
from pytubemq.pipelines.file.model import Sink
from pytubemq.pipelines.preflight.targets import check_targets

if TYPE_CHECKING:
    from pathlib import Path


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
    with pytest.raises(ConfigError, match=r"sink dead_letter: .* is where the sink a writes"):
        check_targets([parquet("a", one.format(tmp_path)), parquet("dead_letter", other.format(tmp_path))])


def test_tables_are_told_apart_by_database_and_topics_are_shared() -> None:
    def table(name: str, url: str, text: str) -> Sink:
        return Sink(name, "jdbc", url=url, table=text)

    topics = [Sink(name, "tubemq", topic="t") for name in ("x", "y")]
    check_targets([table("a", "jdbc:a", "t"), table("b", "jdbc:b", "t"), parquet("c", "/t"), *topics])
    with pytest.raises(ConfigError, match="sink b: T is where the sink a writes"):
        check_targets([table("a", "jdbc:a", "t"), table("b", "jdbc:a", "T")])
