"""The options of source and sink for TLS."""

from __future__ import annotations

import pytest

from pytubemq.errors import ConfigError
from pytubemq.model.ids import Address
from pytubemq.model.tls_options import TlsOptions
from pytubemq.spark.sink.options import parse_options as sink_options
from pytubemq.spark.source.options import parse_options as source_options

TLS = {"tlsca": "ca.pem", "tlsCert": "c.pem", "tlsKey": "k.pem", "tlsServerName": "m"}


def test_source_and_sink_take_the_same_options() -> None:
    expected = TlsOptions("ca.pem", "c.pem", "k.pem", "m")
    source = source_options({"master": "m1", "topic": "demo", **TLS}).masters
    sink = sink_options({"master": "m1", "topic": "demo", **TLS}, streaming=False).masters
    assert source == sink
    assert source.masters == (Address("m1", 8716),)
    assert source.tls == expected
    one = source_options({"master": "tls://m1?ca=ca.pem", "topic": "demo"}).masters
    assert one.tls == TlsOptions("ca.pem")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tlsKey": "k.pem"}, "the option tlsKey has no meaning without tlsCa"),
        ({"tlsCa": "ca.pem", "tlsKey": "k.pem"}, "a private key and no certificate"),
        ({"tlsCa": "ca.pem", "master": "tls://m1?ca=b"}, "given twice"),
        ({"tlsca.pem": "x"}, "no option"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, str], words: str) -> None:
    for parse in (source_options, lambda given: sink_options(given, streaming=False)):
        with pytest.raises(ConfigError) as caught:
            parse({"master": "m1", "topic": "demo", **options})
        assert words in str(caught.value)
