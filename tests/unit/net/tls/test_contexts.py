"""Files that can be used for TLS, and the errors of those that cannot."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from pytubemq.errors import ConfigError
from pytubemq.model.tls_options import TlsOptions
from pytubemq.net.tls import contexts
from pytubemq.net.tls.contexts import ServerFiles, certificate_name, client_context, server_context
from tests.support.certificates import CLIENT_ONLY, SERVER_ONLY, Authority, Pair, server_files


def test_a_context_checks_names_and_speaks_tls_1_2_or_later(authority: Authority) -> None:
    client = client_context(authority.options())
    assert client.check_hostname
    assert client.verify_mode is ssl.CERT_REQUIRED
    assert client.minimum_version is ssl.TLSVersion.TLSv1_2
    assert len(client.get_ca_certs()) == 1, "no CA of the system's"
    assert server_context(server_files(authority.issue())).verify_mode is ssl.CERT_NONE
    mutual = server_context(server_files(authority.issue(), authority))
    assert mutual.verify_mode is ssl.CERT_REQUIRED
    assert mutual.minimum_version is ssl.TLSVersion.TLSv1_2


def _refused(pair: Pair, *, ca: str | None = None, options: TlsOptions | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        _load(pair, ca, options)
    return str(caught.value)


def _load(pair: Pair, ca: str | None, options: TlsOptions | None) -> None:
    if options is not None:
        client_context(options)
    else:
        server_context(ServerFiles(pair.cert, pair.key, ca))


def test_each_unusable_file_has_an_error_that_names_it(authority: Authority, tmp_path: Path) -> None:
    good, other = authority.issue("good"), authority.issue("other")
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    assert f"the certificate {tmp_path}/none.pem cannot be read: No such file" in _refused(
        Pair(f"{tmp_path}/none.pem", good.key)
    )
    assert f"the key {tmp_path}/none.key cannot be read: No such file" in _refused(
        Pair(good.cert, f"{tmp_path}/none.key")
    )
    assert f"the certificate {text} is not a PEM file with a certificate" in _refused(Pair(str(text), good.key))
    assert f"the key {text} is not a PEM file with a private key" in _refused(Pair(good.cert, str(text)))
    assert f"the key {other.key} does not belong to the certificate {good.cert}" in _refused(Pair(good.cert, other.key))
    assert f"the CA certificate {text} is not a PEM file" in _refused(good, ca=str(text))
    assert f"the CA certificate {text} is not a PEM file" in _refused(good, options=TlsOptions(str(text)))
    damaged = tmp_path / "damaged.pem"
    damaged.write_text(Path(good.cert).read_text().replace("M", "!", 5))
    assert f"the certificate {damaged} and the key" in _refused(Pair(str(damaged), good.key))
    assert f"the CA certificate {damaged} cannot be used" in _refused(good, ca=str(damaged))


@pytest.mark.process
def test_a_key_with_a_password_is_refused_and_nobody_is_asked(authority: Authority, tmp_path: Path) -> None:
    good = authority.issue()
    locked = tmp_path / "locked.key"
    subprocess.run(
        ["openssl", "pkey", "-aes256", "-passout", "pass:secret", "-in", good.key, "-out", str(locked)],
        check=True,
        capture_output=True,
    )
    assert f"the key {locked} is encrypted with a password" in _refused(Pair(good.cert, str(locked)))


def test_certificates_that_no_peer_would_accept_are_refused_when_they_are_loaded(authority: Authority) -> None:
    expired = authority.issue("expired", expired=True)
    assert f"the certificate {expired.cert} has expired" in _refused(expired)
    assert f"the certificate {expired.cert} has expired" in _refused(expired, options=authority.options(expired))
    of_client, of_server = authority.issue_for(CLIENT_ONLY, "a-client"), authority.issue_for(SERVER_ONLY, "a-server")
    assert "is for another use than that of a server" in _refused(of_client)
    assert "is for another use than that of a client" in _refused(of_server, options=authority.options(of_server))
    server_context(server_files(of_server))
    client_context(authority.options(of_client))


def test_files_that_are_replaced_while_they_are_loaded_have_an_error_that_names_them(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, other = authority.issue(), authority.issue("other")
    try_out = contexts._try_out

    def replace_and_try_out(cert: str, key: str, *, is_server: bool) -> None:
        shutil.copy(other.key, key)
        try_out(cert, key, is_server=is_server)

    monkeypatch.setattr(contexts, "_try_out", replace_and_try_out)
    assert "does not belong to the certificate" in _refused(pair)


def test_the_name_in_a_certificate() -> None:
    assert certificate_name(None) is None
    assert certificate_name({}) is None
    assert certificate_name({"subject": ((("commonName", "orders"),),)}) == "orders"
    assert certificate_name({"subject": (), "subjectAltName": (("DNS", "a.example"), ("DNS", "b"))}) == "a.example"
