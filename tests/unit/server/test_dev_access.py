"""The files of `pytubemq dev --secure`: made once, private, and used again."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from pytubemq.cli.api import Api
from pytubemq.errors import AlreadyExistsError, ConfigError
from pytubemq.model.cluster_address import ClusterAddress
from pytubemq.server.keys.dev_access import dev_access
from pytubemq.server.sources import load_settings

if TYPE_CHECKING:
    from pathlib import Path


def test_they_are_made_once_and_private(tmp_path: Path) -> None:
    first = dev_access(tmp_path)
    before = {path: path.read_bytes() for path in first.directory.iterdir()}
    assert dev_access(tmp_path) == first
    assert {path: path.read_bytes() for path in first.directory.iterdir()} == before
    assert stat.S_IMODE(first.directory.stat().st_mode) == 0o700
    secrets = [path for path in before if path.suffix in (".key", ".secret", ".token")]
    assert len(secrets) == 5
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}
    assert dev_access(tmp_path / "other").secret != first.secret


def test_the_settings_can_be_used_and_close_the_plain_ports(tmp_path: Path) -> None:
    settings = load_settings(None, environ={"PYTUBEMQ_TLS__PLAIN": "true"}, flags=dev_access(tmp_path).settings())
    assert not settings.tls.plain
    assert settings.security.authentication == "enforced"
    assert len(settings.http.token) >= 43


def test_the_addresses_name_files_and_hold_no_secret(tmp_path: Path) -> None:
    access = dev_access(tmp_path / "a directory")
    master, http = access.master_address("127.0.0.1:8716"), access.http_address("https://127.0.0.1:8080")
    tls = ClusterAddress.parse(master).tls
    assert tls is not None
    assert tls.ca == str(access.certificates.ca)
    assert parse_qs(urlsplit(http).query) == {
        "ca": [str(access.certificates.ca)],
        "token_file": [str(access.token_file)],
    }
    for text in (master, http, repr(access)):
        assert access.secret.reveal() not in text
        assert access.token_file.read_text().strip() not in text


def test_what_is_missing_or_open_to_others_is_named(tmp_path: Path) -> None:
    access = dev_access(tmp_path)
    access.secret_file.write_text("\n")
    with pytest.raises(ConfigError, match=r"admin\.secret is empty"):
        _ = access.secret
    access.secret_file.chmod(0o640)
    with pytest.raises(ConfigError, match="open to other users"):
        _ = access.secret
    access.certificates.client.unlink()
    with pytest.raises(AlreadyExistsError, match=r"has ca\.pem"):
        dev_access(tmp_path)


def test_a_command_takes_the_token_of_the_file_unless_the_environment_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = dev_access(tmp_path)
    url = access.http_address("https://127.0.0.1:8080")
    monkeypatch.delenv("PYTUBEMQ_TOKEN", raising=False)
    assert Api(url, timeout_s=1.0)._token.reveal() == access.token_file.read_text().strip()
    monkeypatch.setenv("PYTUBEMQ_TOKEN", "given")
    assert Api(url, timeout_s=1.0)._token.reveal() == "given"
    monkeypatch.delenv("PYTUBEMQ_TOKEN")
    access.token_file.unlink()
    with pytest.raises(ConfigError, match=r"http\.token cannot be read"):
        Api(url, timeout_s=1.0)
