"""The password of the store's database: where it comes from, and that no error shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ConfigError
from pytubemq.model.limits import MAX_SECRET_FILE_BYTES
from pytubemq.server.keys.store_password import database_options
from pytubemq.server.sources import load_settings

if TYPE_CHECKING:
    from pathlib import Path

URL = "postgresql://ann@127.0.0.1/tubemq"
SECRET = "open-sesame-7"


def written(path: Path, content: bytes, mode: int = 0o600) -> str:
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


def test_the_environment_comes_before_the_file_and_neither_is_needed(tmp_path: Path) -> None:
    file = written(tmp_path / "password", f"{SECRET}\r\nsecond line".encode())
    assert database_options(URL, file, {}).password == SECRET
    assert database_options(URL, file, {"PYTUBEMQ_STORE_PASSWORD": "other"}).password == "other"
    assert database_options(URL, "", {}).password is None


@pytest.mark.parametrize(
    ("content", "mode", "text"),
    [
        (SECRET.encode(), 0o640, "is open to other users"),
        (b"\n", 0o600, "is empty"),
        (b"\xff" + SECRET.encode(), 0o600, "is not text in UTF-8"),
        (SECRET.encode() * MAX_SECRET_FILE_BYTES, 0o600, "is longer than"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: bytes, mode: int, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        database_options(URL, written(tmp_path / "password", content, mode), {})
    assert SECRET not in str(caught.value)


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        database_options(URL, str(tmp_path / "nosuch"), {})
    with pytest.raises(ConfigError, match=r"is not a file|Is a directory"):
        database_options(URL, str(tmp_path), {})


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"master.store": "postgres"}, "neither `sqlite` nor the URL"),
        ({"master.store": f"postgresql://ann:{SECRET}@db/tubemq"}, "has a password"),
        ({"master.store_password_file": "x"}, "has no meaning without a database"),
        ({"master.lease_s": "0.1"}, "not a number from 0.5 to 300"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        load_settings(None, environ={"PYTUBEMQ_STORE_PASSWORD": SECRET}, flags=settings)
    assert SECRET not in str(caught.value)
