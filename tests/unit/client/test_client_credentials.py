"""The credentials of a client: which of several count, and files and variables that cannot be used."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import pytest

import pytubemq
from pytubemq.client.client_credentials import find_credentials, read_secret_file
from pytubemq.errors import ConfigError
from pytubemq.model.cluster_address import ClusterUser
from pytubemq.model.limits import MAX_SECRET_FILE_BYTES
from pytubemq.security.credentials import Credentials

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "pssst-0123456789"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ann.secret"
    path.write_text(f"{SECRET}\n# of ann\n")
    path.chmod(0o600)
    return path


def test_the_program_s_own_count_before_the_address_and_that_before_the_environment(file: Path) -> None:
    own, user = Credentials.of("own", "o"), ClusterUser("ann", str(file))
    environ = {"PYTUBEMQ_USER": "eve", "PYTUBEMQ_SECRET": "e"}
    assert find_credentials(own, user, environ) is own
    assert find_credentials(None, user, environ) == Credentials.of("ann", SECRET)
    assert find_credentials(None, None, environ) == Credentials.of("eve", "e")
    assert find_credentials(None, None, {}) is None
    by_file = {"PYTUBEMQ_USER": "ann", "PYTUBEMQ_SECRET_FILE": str(file)}
    assert find_credentials(None, None, by_file) == Credentials.of("ann", SECRET)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("USER", "neither PYTUBEMQ_SECRET_FILE nor PYTUBEMQ_SECRET"),
        ("SECRET", "PYTUBEMQ_SECRET is set, and PYTUBEMQ_USER is not"),
        ("SECRET_FILE", "PYTUBEMQ_SECRET_FILE is set, and PYTUBEMQ_USER is not"),
        ("USER SECRET SECRET_FILE", "are both set"),
    ],
)
def test_an_environment_that_says_half_of_it_is_refused(names: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_credentials(None, None, {f"PYTUBEMQ_{name}": SECRET for name in names.split()})
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_file_that_others_can_read_is_refused(file: Path) -> None:
    file.chmod(0o640)
    with pytest.raises(ConfigError, match=f"chmod 600 {file}"):
        read_secret_file(str(file))


def test_files_without_a_secret_are_refused(file: Path, tmp_path: Path) -> None:
    for content, words in (
        (b"\n", "is empty"),
        (SECRET.encode() + b"\xff", "is not text"),
        (SECRET.encode() * MAX_SECRET_FILE_BYTES, "is longer than"),
    ):
        file.write_bytes(content)
        with pytest.raises(ConfigError, match=words) as caught:
            read_secret_file(str(file))
        assert SECRET not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_secret_file(str(tmp_path / "none"))


def test_a_user_is_named_once() -> None:
    with pytest.raises(ConfigError, match="given twice"):
        pytubemq.connect("m1?user=ann&secret_file=f", credentials=Credentials.of("ann", "s"))
