"""What a plan asks the cluster; the cluster played here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.errors import ConfigError
from pytubemq.model.ids import Partition
from pytubemq.pipelines import load_checked
from pytubemq.pipelines.analysis.missing import MissingStartError
from pytubemq.pipelines.check import dry_run
from pytubemq.pipelines.plan.cluster_state import look
from pytubemq.spark.source.planning import survey
from pytubemq.spark.source.planning.plan import Ends

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FILE = (
    'name: p\nsource:\n  topic: orders\n  master: "a:1"\n  start: group:nogroup\nsinks: [{name: o, format: console}]\n'
)


class Survey:
    """One partition, of which no group has confirmed anything."""

    def __init__(self, options: Any) -> None:
        self.cluster = SimpleNamespace(forget=lambda: None)

    def ends(self) -> dict[Partition, Ends]:
        return {Partition(1, "orders", 0): Ends(0, 280, 10)}

    def of_group(self, partitions: Iterable[Partition], group: str) -> dict[Partition, int | None]:
        return dict.fromkeys(partitions)


@pytest.fixture(autouse=True)
def played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_run, "faults_of", lambda context, already: [])
    monkeypatch.setattr(survey, "Survey", Survey)


def test_a_place_to_begin_at_that_is_not_there_is_told_with_key_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(FILE)
    loaded = load_checked(file)
    with pytest.raises(MissingStartError) as found:
        look(loaded.require(), None)
    said = "source.start: group nogroup has confirmed nothing in orders"
    assert found.value.message == said
    found.value.put(loaded.places)
    assert found.value.message == f"{file}:5:10 {said}"
    assert found.value.exit_code == ConfigError.exit_code
    assert "begin at earliest or latest" in (found.value.hint or "")
    checks = dry_run._DryRun(None, loaded.require(), loaded.places, 1).source()  # type: ignore[arg-type]
    source = next(checks)
    assert source.error is not None
    assert source.error.message == f"{file}:5:10 {said}"
