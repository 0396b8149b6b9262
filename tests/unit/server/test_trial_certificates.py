"""Certificates for a trial cluster."""

from __future__ import annotations

import stat
import sys
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import AlreadyExistsError, ConfigError, MissingExtraError
from pytubemq.model.tls_options import TlsOptions
from pytubemq.net.tls.contexts import ServerFiles, client_context, server_context
from pytubemq.server.trial_certificates import key_of, make_trial_certificates

if TYPE_CHECKING:
    from pathlib import Path


def test_they_can_be_used_by_servers_and_clients(tmp_path: Path) -> None:
    files = make_trial_certificates(tmp_path / "new" / "certs", hosts=["m1.example", "10.0.0.1"])
    assert {path.name for path in files.directory.iterdir()} == {path.name for path in files.all}
    server_context(ServerFiles(str(files.server), str(key_of(files.server)), str(files.ca)))
    for own in (files.client, files.server):
        client_context(TlsOptions(str(files.ca), str(own), str(key_of(own))))
    with pytest.raises(ConfigError, match="another use than that of a server"):
        server_context(ServerFiles(str(files.client), str(key_of(files.client))))
    for path in files.all:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == 0o600 if path.suffix == ".key" else mode & 0o022 == 0


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "client.key").write_text("mine")
    with pytest.raises(AlreadyExistsError, match=r"has client\.key already"):
        make_trial_certificates(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["client.key"]


def test_errors_name_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="'no host' is not the name"):
        make_trial_certificates(tmp_path, hosts=["no host"])
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        make_trial_certificates(file / "certs")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingExtraError, match=r"making certificates needs the extra \[secure\]"):
        make_trial_certificates(tmp_path / "other")
