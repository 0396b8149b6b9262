"""When a server's certificate expires, and from when on somebody is told."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from pytubemq.model.limits import CERTIFICATE_WARNING_S
from pytubemq.net.server.stats import ServerStats
from pytubemq.net.tls.contexts import certificate_expiry
from pytubemq.net.tls.reload import reloading_server
from tests.support.certificates import Authority, server_files

UNTIL = datetime.datetime.now(datetime.UTC).replace(microsecond=0) + datetime.timedelta(days=40)
DAY_S = 86_400


def test_it_is_the_certificates_own_end(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("server", until=UNTIL)
    assert certificate_expiry(pair.cert, pair.key) == UNTIL.timestamp()
    assert certificate_expiry(authority.issue("old", expired=True).cert, pair.key) is None
    assert certificate_expiry(str(tmp_path / "none.pem"), pair.key) is None


def test_its_problem_is_reported_two_weeks_before(tmp_path: Path) -> None:
    source = reloading_server(server_files(Authority(tmp_path).issue("server", until=UNTIL)))
    end_s = UNTIL.timestamp()
    assert source.trouble(now_s=end_s - CERTIFICATE_WARNING_S - 1) is None
    assert str(source.trouble(now_s=end_s - 5 * DAY_S)).endswith("server.pem expires in 5 days")
    assert str(source.trouble(now_s=end_s + 1)).endswith("server.pem has expired")


def test_a_new_one_in_its_place_ends_that(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    source = reloading_server(server_files(authority.issue("server", until=UNTIL)))
    late_s = UNTIL.timestamp() - DAY_S
    assert source.trouble(now_s=late_s) is not None
    authority.issue("server", until=UNTIL + datetime.timedelta(days=300))
    assert source.reload()
    assert source.trouble(now_s=late_s) is None


def test_changed_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("server", until=UNTIL)
    source = reloading_server(server_files(pair))
    Path(pair.cert).write_text("no certificate")
    assert not source.reload()
    trouble = str(source.trouble(now_s=UNTIL.timestamp() - 30 * DAY_S))
    assert "changed TLS files cannot be used" in trouble
    assert "is not a PEM file" in trouble
    assert source.expires_s == UNTIL.timestamp()


def test_the_metric_counts_days_and_is_absent_without_a_tls_port() -> None:
    assert ServerStats().certificate_days == {}
    days = ServerStats(certificate_expires_s=UNTIL.timestamp()).certificate_days[()]
    assert days == pytest.approx(40, abs=1)
