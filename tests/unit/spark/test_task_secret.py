"""Who signs in a task: the client token of the driver where there is one, else the secret in a file of the executor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark import TaskContext

from pytubemq.client.partition_state import Known
from pytubemq.errors import ConfigError
from pytubemq.model.cluster_address import ClusterAddress, ClusterUser
from pytubemq.spark.sink.connection import connected
from pytubemq.spark.source.java.access import access
from pytubemq.spark.source.read.source_connection import Cluster
from pytubemq.spark.task_secret import check_own_secret, signs_itself

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BROKERS = ((1, "127.0.0.1", 8123),)
WITHOUT_TOKEN = Known(BROKERS, 7)
WITH_TOKEN = Known(BROKERS, 7, "the-driver", "a-token")


@pytest.fixture(autouse=True)
def _no_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTUBEMQ_USER", "PYTUBEMQ_SECRET_FILE", "PYTUBEMQ_SECRET"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def in_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskContext, "get", lambda: object())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "ann.secret"
    made.touch(mode=0o600)
    made.write_text("a-secret-of-ann-in-these-tests")
    return made


def at(file: Path) -> ClusterAddress:
    return ClusterAddress.parse("127.0.0.1:1", user=ClusterUser("ann", str(file)))


def test_who_has_a_user_and_no_token_signs(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = ClusterAddress.parse("127.0.0.1:1")
    assert [signs_itself(at(file), known) for known in (None, WITHOUT_TOKEN, WITH_TOKEN)] == [True, True, False]
    assert not signs_itself(nobody, WITHOUT_TOKEN)
    monkeypatch.setenv("PYTUBEMQ_USER", "ann")
    monkeypatch.setenv("PYTUBEMQ_SECRET_FILE", str(file))
    assert signs_itself(nobody, WITHOUT_TOKEN)
    file.unlink()
    assert not signs_itself(nobody, WITHOUT_TOKEN), "where the cluster wants it, it says so"


def through_the_source(masters: ClusterAddress) -> object:
    return Cluster(masters, known=WITHOUT_TOKEN).tube()


def through_java(masters: ClusterAddress) -> object:
    return access(masters, WITHOUT_TOKEN)


def through_the_sink(masters: ClusterAddress) -> object:
    return connected(masters)


@pytest.mark.usefixtures("in_task")
@pytest.mark.parametrize("connect", [through_the_source, through_java, through_the_sink])
def test_a_file_that_is_not_on_the_executor_is_named_as_needed_there(
    connect: Callable[[ClusterAddress], Any], tmp_path: Path
) -> None:
    gone = tmp_path / "gone.secret"
    with pytest.raises(ConfigError) as caught:
        connect(at(gone))
    assert f"the secret file {gone} cannot be read" in caught.value.message
    assert "this executor needs it, as the Master issues no client tokens" in caught.value.message
    assert "that secretFile names at the same path on each executor, with mode 0600" in str(caught.value.hint)


@pytest.mark.usefixtures("in_task")
def test_a_file_that_others_can_read_is_refused_there_too(file: Path) -> None:
    check_own_secret(at(file), None)
    file.chmod(0o644)
    with pytest.raises(ConfigError, match=r"open to other users of this machine; this executor needs it"):
        check_own_secret(at(file), None)


def test_with_a_token_and_on_the_driver_nothing_is_said_of_executors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = at(tmp_path / "gone.secret")
    check_own_secret(gone, None)
    monkeypatch.setattr(TaskContext, "get", lambda: object())
    check_own_secret(gone, WITH_TOKEN)
    check_own_secret(ClusterAddress.parse("127.0.0.1:1"), None)
