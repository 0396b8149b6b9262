"""A CA, and the settings of a cluster with TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def secure(authority: Authority) -> dict[str, object]:
    """The settings of a cluster whose parts reach each other over TLS, whose clients show certificates, with HTTPS."""
    server, broker = authority.issue("server"), authority.issue("broker", "broker.example")
    return {
        "tls.cert": server.cert,
        "tls.key": server.key,
        "tls.ca": authority.path,
        "tls.client_ca": authority.path,
        "tls.client_cert": broker.cert,
        "tls.client_key": broker.key,
        "http.tls_cert": server.cert,
        "http.tls_key": server.key,
    }
