"""The address of a cluster in one text, with its TLS options."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from pytubemq.errors import ConfigError, FormatError
from pytubemq.model.cluster_address import ClusterAddress
from pytubemq.model.ids import Address
from pytubemq.model.tls_options import TlsOptions


def test_a_plain_address() -> None:
    found = ClusterAddress.parse(" m1:1 , m2")
    assert found == ClusterAddress((Address("m1", 1), Address("m2", 8715)))
    assert str(found) == "m1:1,m2:8715"


def test_an_address_over_tls_and_its_default_port() -> None:
    found = ClusterAddress.parse("tls://m1,m2:1?ca=/etc/c%20a.pem&cert=c.pem&key=k.pem&server_name=m")
    assert found.masters == (Address("m1", 8716), Address("m2", 1))
    assert found.tls == TlsOptions("/etc/c a.pem", "c.pem", "k.pem", "m")
    assert ClusterAddress.parse(str(found)) == found
    assert pickle.loads(pickle.dumps(found)) == found
    beside = ClusterAddress.parse("m1", tls=TlsOptions("ca.pem"))
    assert beside == ClusterAddress.parse("tls://m1", tls=TlsOptions("ca.pem"))
    assert beside.masters == (Address("m1", 8716),)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("http://m1", FormatError, "not the address of a Master"),
        ("", ConfigError, "no Master address given"),
        ("tls://?ca=a", ConfigError, "no Master address given"),
        ("tls://m1", ConfigError, "names no CA"),
        ("tls://m1?ca=", ConfigError, "names no CA"),
        ("tls://m1?ca=a&server_nam=b", ConfigError, "did you mean server_name?"),
        ("tls://m1?ca=a&key=b", ConfigError, "a private key and no certificate"),
        ("tls://m1:x?ca=a", FormatError, "not an address"),
    ],
)
def test_what_is_no_address(text: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        ClusterAddress.parse(text)
    assert words in str(caught.value)


def test_options_are_given_once() -> None:
    with pytest.raises(ConfigError, match="given twice"):
        ClusterAddress.parse("tls://m1?ca=a", tls=TlsOptions("b"))


def test_options_take_paths_and_refuse_what_would_trust_anybody() -> None:
    assert TlsOptions(Path("/etc/ca.pem")) == TlsOptions("/etc/ca.pem")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="would trust anybody"):
        TlsOptions("")
