"""A sink keeps the query that feeds it, as long as that has made progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ConfigError
from pytubemq.pipelines.state.directory import StateDirectory
from pytubemq.pipelines.state.fed_queries import NAME, check_moved, checkpoint_of, fed_before, remember
from pytubemq.pipelines.state.files import LocalFiles

if TYPE_CHECKING:
    from pathlib import Path


def begin(state: StateDirectory, query: str) -> None:
    state.write(f"{checkpoint_of(query)}/offsets/0", {"0:t:0": 28})


@pytest.mark.parametrize(
    ("before", "now"),
    [("main", "step-w"), ("step-w", "main"), ("step-w", "step-w-update"), ("main", "log-lake"), ("step-w", "step-v")],
)
def test_a_sink_that_another_query_fed_is_refused(before: str, now: str, tmp_path: Path) -> None:
    state = StateDirectory(str(tmp_path))
    remember(state, {"lake": before})
    check_moved(state, {"lake": now})  # nothing was read yet
    begin(state, before)
    check_moved(state, {"lake": before, "new": now})
    with pytest.raises(ConfigError, match=f"sink lake: it was fed by the query {before} and would be by {now}") as told:
        check_moved(state, {"lake": now})
    assert "give the sink a new name" in (told.value.hint or "")
    assert fed_before(LocalFiles(tmp_path)) == {"lake": before}


def test_a_sink_that_is_taken_out_of_the_file_for_a_while_is_still_known(tmp_path: Path) -> None:
    state = StateDirectory(str(tmp_path))
    begin(state, "main")
    remember(state, {"lake": "main", "board": "step-w"})
    remember(state, {"board": "step-w"})
    with pytest.raises(ConfigError, match="sink lake"):
        check_moved(state, {"lake": "step-w", "board": "step-w"})


def test_without_a_word_of_it_nothing_is_refused(tmp_path: Path) -> None:
    state = StateDirectory(str(tmp_path))
    begin(state, "main")
    check_moved(state, {"lake": "step-w"})
    (tmp_path / NAME).write_text("[]")
    assert fed_before(state) == {}
