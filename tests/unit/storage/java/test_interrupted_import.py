"""An import that ends at any step leaves all of it or nothing, and can be run again where it left nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pytubemq.errors import BadRequestError, StorageError, TubeError
from pytubemq.storage.java.java_import import import_java
from pytubemq.storage.journal.unfinished_import import NAME
from pytubemq.storage.store.store import BrokerStore
from pytubemq.storage.tools.repair import repair
from pytubemq.storage.tools.verify import verify
from pytubemq.testing.disk import FaultyDisk, Operation
from tests.unit.storage.helpers import ROOMY, ROOT, commit, messages
from tests.unit.storage.tools.making import held_in

RECORDED = Path(__file__).parents[3] / "vectors" / "java-store"
TOPICS = ("filt", "multi")
IMPORTED = {("filt", 0): 3, ("multi", 0): 1, ("multi", 1): 1, ("multi", 10000): 1, ("multi", 10001): 1}
"""Messages of the recorded partitions of these topics."""
BEFORE_MS = 1_000_000
"""A time before that of all recorded messages, so that those have higher ids."""


class MortalDisk(FaultyDisk):
    """A disk for processes that end after a number of steps."""

    steps: int | None = None

    def _check(self, operation: Operation, path: Path, size: int = 0) -> int:
        if self.steps == 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        if self.steps is not None:
            self.steps -= 1
        return super()._check(operation, path, size)

    def end(self, *, power_loss: bool) -> bool:
        """End the process, and let the next one begin; return True if this one had come to its last step."""
        came_to_it, self.steps = self.steps == 0, None
        self.crash() if power_loss else self.kill()
        return came_to_it


def write_own(disk: FaultyDisk) -> None:
    """Two messages of a topic that is not imported."""
    store = BrokerStore.open(ROOT, disk=disk, settings=ROOMY)
    store.ensure_partition("own", 0)
    staging = store.staging()
    for payload in (b"a", b"b"):
        staging.append("own", 0, payload, 0, -1)
    commit(store, staging, now_ms=BEFORE_MS)
    store.close()


def counts(disk: FaultyDisk, caplog: pytest.LogCaptureFixture) -> dict[tuple[str, int], int]:
    """Messages by partition after a start that found nothing wrong."""
    caplog.clear()
    store = BrokerStore.open(ROOT, disk=disk, settings=ROOMY)
    found = {key: len(messages(store, key[1], topic=key[0])) for key in store.partitions()}
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
    assert not any("repair-recovery" in str(path) for path in disk.files())
    assert not disk.exists(ROOT / NAME)
    store.close()
    return {key: number for key, number in found.items() if number}


@pytest.mark.parametrize("power_loss", [False, True])
@pytest.mark.parametrize("is_new", [True, False], ids=["new store", "store in use"])
@pytest.mark.slow
def test_an_import_that_ends_at_any_step_leaves_all_or_nothing(
    caplog: pytest.LogCaptureFixture, *, is_new: bool, power_loss: bool
) -> None:
    own = {} if is_new else {("own", 0): 2}
    for steps in range(1000):
        disk = MortalDisk(seed=steps)
        if not is_new:
            write_own(disk)
        disk.steps = steps
        failed = False
        try:
            import_java(ROOT, RECORDED, topics=TOPICS, disk=disk)
        except (OSError, TubeError):
            failed = True
        if not disk.end(power_loss=power_loss):
            break
        found = counts(disk, caplog)
        # What had said that it was done is there; else there is all of it, or nothing.
        assert found == own | IMPORTED or (failed and found == own), steps
        if found == own:
            import_java(ROOT, RECORDED, topics=TOPICS, disk=disk)
            assert counts(disk, caplog) == own | IMPORTED, steps
        else:
            with pytest.raises(BadRequestError, match="already"):
                import_java(ROOT, RECORDED, topics=TOPICS, disk=disk)
    assert steps > 50
    assert not failed
    assert counts(disk, caplog) == own | IMPORTED


def interrupted(disk: FaultyDisk | None, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import that ended just before its checkpoint."""

    def ends(*_: object) -> None:
        raise OSError(errno.EIO, "the process ended")

    with monkeypatch.context() as patch:
        patch.setattr("pytubemq.storage.java.java_import.put_checkpoint", ends)
        with pytest.raises(OSError, match="the process ended"):
            import_java(root, RECORDED, topics=TOPICS, disk=disk)


@pytest.mark.parametrize("power_loss", [False, True])
def test_a_start_after_an_interrupted_import_may_end_at_any_step(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, power_loss: bool
) -> None:
    for steps in range(1000):
        disk = MortalDisk(seed=steps)
        interrupted(disk, ROOT, monkeypatch)
        disk.steps = steps
        try:
            BrokerStore.open(ROOT, disk=disk, settings=ROOMY)
        except (OSError, TubeError):
            assert disk.steps == 0
        if not disk.end(power_loss=power_loss):
            break
        assert counts(disk, caplog) == {}, steps
        assert [path for path in disk.files() if ROOT / "logs" in path.parents] == []
    assert steps > 10


def test_an_interrupted_import_is_named_by_what_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "broker-1"
    interrupted(None, root, monkeypatch)
    found = verify(root, beside={})
    assert found.is_sound
    [mark] = [one for one in found.findings if one.path == root / NAME]
    assert "run it again" in mark.what
    assert held_in(root) == {}
    assert repair(root, root / "repair-1").done == []
    BrokerStore.open(root, settings=ROOMY).close()
    assert f"{root}: an import was interrupted; what it wrote was removed" in caplog.text


def test_a_repair_takes_nothing_from_an_interrupted_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "broker-1"
    interrupted(None, root, monkeypatch)
    [journal] = (root / "journal").iterdir()
    journal.write_bytes(b"")
    assert any("import was interrupted" in line for line in repair(root, root / "repair-1").done)
    assert held_in(root) == {}
    assert import_java(root, RECORDED, topics=TOPICS).messages == sum(IMPORTED.values())


def test_a_mark_that_an_ended_import_left_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    disk = MortalDisk()
    disk.fail(Operation.UNLINK, path_contains=NAME)
    import_java(ROOT, RECORDED, topics=TOPICS, disk=disk)
    assert disk.exists(ROOT / NAME)
    disk.heal()
    assert counts(disk, caplog) == IMPORTED
    assert "interrupted" not in caplog.text


def test_a_start_that_cannot_remove_the_mark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MortalDisk()
    interrupted(disk, ROOT, monkeypatch)
    disk.fail(Operation.UNLINK, path_contains=NAME)
    # Else logs of messages that the journal loses later would be taken for those of the import.
    with pytest.raises(StorageError):
        BrokerStore.open(ROOT, disk=disk, settings=ROOMY)
