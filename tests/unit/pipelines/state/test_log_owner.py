"""Whose log Spark's file sink may write on, with files in memory in place of Hadoop's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.pipelines.file.model import Sink
from pytubemq.pipelines.state.directory import StateDirectory
from pytubemq.pipelines.state.log_owner import OWNER, SPARKS_LOG, LogOwner

if TYPE_CHECKING:
    from pathlib import Path

CHECKPOINT = "checkpoint-log-lake"
LAKE = Sink("lake", "parquet", path="/lake", layout="log")


class InMemory:
    def __init__(self, *names: str) -> None:
        self.texts = dict.fromkeys(names, "")

    def exists(self, name: str) -> bool:
        return name in self.texts

    def make_directory(self, name: str) -> None:
        self.texts.setdefault(name, "")

    def read(self, name: str) -> str | None:
        return self.texts.get(name)

    def write(self, name: str, text: str) -> None:
        self.texts[name] = text


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(str(tmp_path / "state"))


def test_a_query_goes_on_with_the_log_that_it_has_begun(state: StateDirectory) -> None:
    files = InMemory()
    LogOwner(files, state, CHECKPOINT, LAKE).claim()
    files.write(f"/lake/{SPARKS_LOG}", "")
    again = LogOwner(files, state, CHECKPOINT, LAKE)
    assert not again.is_foreign()
    owner = files.read(f"/lake/{OWNER}")
    again.claim()
    assert files.read(f"/lake/{OWNER}") == owner


def test_a_query_whose_progress_was_reset_does_not_begin_again_below_the_old_log(
    state: StateDirectory, tmp_path: Path
) -> None:
    files = InMemory()
    LogOwner(files, state, CHECKPOINT, LAKE).claim()
    (tmp_path / "state" / CHECKPOINT).rename(tmp_path / "forgotten")
    assert LogOwner(files, state, CHECKPOINT, LAKE).is_foreign()


def test_a_log_of_which_nobody_says_whose_it_is_is_another_s(state: StateDirectory) -> None:
    assert LogOwner(InMemory(f"/lake/{SPARKS_LOG}"), state, CHECKPOINT, LAKE).is_foreign()
    assert not state.exists(CHECKPOINT)


def test_a_claim_that_a_kill_cut_short_is_made_again(state: StateDirectory) -> None:
    LogOwner(InMemory(), state, CHECKPOINT, LAKE).claim()
    files = InMemory()  # the kill came before the directory's side was written
    LogOwner(files, state, CHECKPOINT, LAKE).claim()
    assert files.read(f"/lake/{OWNER}") == (state.read(f"{CHECKPOINT}/tubemq-owner.json") or {})["owner"]
