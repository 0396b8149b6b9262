"""The address of a cluster in one text, with its TLS options."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from pytubemq.errors import ConfigError, FormatError
from pytubemq.model.cluster_address import ClusterAddress, ClusterUser
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


def test_an_address_names_its_user_and_the_file_with_the_secret() -> None:
    ann = ClusterUser("ann", "/etc/ann secret")
    plain = ClusterAddress.parse("m1,m2:1?user=ann&secret_file=/etc/ann%20secret")
    assert plain == ClusterAddress((Address("m1", 8715), Address("m2", 1)), user=ann)
    over_tls = ClusterAddress.parse("tls://m1?ca=ca.pem&user=ann&secret_file=/etc/ann+secret")
    assert over_tls == ClusterAddress((Address("m1", 8716),), TlsOptions("ca.pem"), ann)
    for address in (plain, over_tls):
        assert ClusterAddress.parse(str(address)) == address
        assert pickle.loads(pickle.dumps(address)) == address
    assert ClusterAddress.parse("m1", user=ann) == ClusterAddress((Address("m1", 8715),), user=ann)
    assert ClusterAddress.parse("tls://m1?user=ann&secret_file=f", tls=TlsOptions("a")).tls == TlsOptions("a")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("m1?user=ann", "the user 'ann' is given, and no secret file"),
        ("m1?secret_file=f", "a secret file is given, and no user"),
        ("m1?users=ann", "did you mean user?"),
        ("m1?ca=a", "has ca without tls:// before it"),
        ("m1?user=ann&secret=pssst", "has a secret in it"),
        ("tls://m1?ca=a&user=ann&secret=pssst", "has a secret in it"),
        ("ann:pssst@m1:8715", "has an @ in it"),
        ("tls://ann:pssst@m1?ca=a", "has an @ in it"),
    ],
)
def test_a_user_that_cannot_be_used_is_refused_and_no_secret_is_shown(text: str, words: str) -> None:
    with pytest.raises((ConfigError, FormatError)) as caught:
        ClusterAddress.parse(text)
    assert words in str(caught.value)
    assert "pssst" not in str(caught.value) + repr(caught.value)


def test_the_user_is_given_once() -> None:
    with pytest.raises(ConfigError, match="given twice"):
        ClusterAddress.parse("m1?user=a&secret_file=b", user=ClusterUser("a", "b"))
