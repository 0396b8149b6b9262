"""The file with the keys of an issuer: read at the start and when it changes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ConfigError
from pytubemq.model.limits import MAX_OIDC_KEYS_BYTES
from pytubemq.server.keys.oidc_key_file import OidcKeyFile
from tests.support.oidc import SigningKey, ec_key, jwks

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = ec_key("first"), ec_key("second")


def written(path: Path, *keys: SigningKey) -> Path:
    """The file, replaced as an administrator would."""
    other = path.with_suffix(".new")
    other.write_bytes(jwks(*keys))
    other.chmod(0o644)
    return other.replace(path)


def test_a_changed_file_comes_into_force_and_a_wrong_one_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path / "keys.json", FIRST)
    file = OidcKeyFile(path)
    before = file.keys
    assert not file.reload()
    assert file.keys is before
    written(path, SECOND)
    assert file.reload()
    assert (file.keys.find("first"), file.problem) == (None, None)
    assert file.keys.find("second") is not None
    for wrong in (b"{}", b""):
        path.write_bytes(wrong)
        assert not file.reload()
        assert file.problem is not None
        assert "is not a JWKS" in file.problem
        assert file.keys.find("second") is not None
    assert "those from before are" in caplog.text
    path.unlink()
    assert not file.reload()
    assert "cannot be read" in (file.problem or "")
    written(path, FIRST, SECOND)
    assert file.reload()
    assert file.problem is None
    assert len(file.keys) == 2


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "cannot be read: No such file"),
        (lambda path: path.mkdir(), "cannot be read: Is a directory"),
        (lambda path: os.mkfifo(path), "is not a file"),
        (lambda path: path.write_bytes(b" " * (MAX_OIDC_KEYS_BYTES + 1)), "has more than 262,144 bytes"),
        (lambda path: path.write_bytes(b"x"), "is not a JWKS"),
        (lambda path: written(path, FIRST).chmod(0o666), "can be changed by every user"),
    ],
    ids=range(6),
)
def test_a_file_that_cannot_be_used_ends_the_start(tmp_path: Path, make: object, reason: str) -> None:
    assert callable(make)
    make(tmp_path / "keys.json")
    with pytest.raises(ConfigError, match=reason) as refused:
        OidcKeyFile(tmp_path / "keys.json")
    assert "keys.json" in str(refused.value)
    assert refused.value.hint
