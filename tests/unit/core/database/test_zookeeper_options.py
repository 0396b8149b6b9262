"""The options of ZooKeeper: what a URL means, what is refused, and that no text has the password."""

from __future__ import annotations

import pytest

from pytubemq.core.database.postgres_options import PostgresOptions
from pytubemq.core.database.store_options import store_options
from pytubemq.core.database.zookeeper_options import ZooKeeperOptions
from pytubemq.errors import ConfigError

SECRET = "open-sesame-7"
URL = "zookeeper://ann@zk1.example:2181,zk2.example,[::1]:2183/tubemq/main"


def test_a_url_names_servers_user_and_node() -> None:
    options = ZooKeeperOptions(URL, SECRET)
    assert options.hosts == "zk1.example:2181,zk2.example:2181,[::1]:2183"
    assert (options.user, options.root, options.tls()) == ("ann", "/tubemq/main", {})
    assert options.node("records", "topic") == "/tubemq/main/records/topic"
    assert options.place == "zookeeper://zk1.example:2181,zk2.example,[::1]:2183/tubemq/main"
    assert SECRET not in f"{options!r} {options}"
    assert ZooKeeperOptions("zookeeper://zk/tubemq").user == ""


def test_tls_is_switched_on_by_the_certificates_that_are_trusted() -> None:
    options = ZooKeeperOptions(f"{URL}?tls_ca=/ca.pem&tls_cert=/me.pem&tls_key=/me.key")
    assert options.tls() == {"tls_ca": "/ca.pem", "tls_cert": "/me.pem", "tls_key": "/me.key"}


@pytest.mark.parametrize(
    ("url", "text"),
    [
        (f"zookeeper://ann:{SECRET}@zk/tubemq", "has a password"),
        (f"zookeeper://[{SECRET}/tubemq", "malformed"),
        ("zookeeper:///tubemq", "names no server"),
        ("zookeeper://zk:no/tubemq", "names no server"),
        ("zookeeper://zk1,,zk2/tubemq", "names no server"),
        ("zookeeper://zk:2181", "names no node"),
        ("zookeeper://zk/a//b", "names no node"),
        ("zookeeper://zk/a/../b", "names no node"),
        ("zookeeper://zk/a?retries=3", "unknown parameter retries"),
        ("zookeeper://zk/a?tls_cert=/me.pem&tls_key=/me.key", "incomplete"),
        ("zookeeper://zk/a?tls_ca=/ca.pem&tls_cert=/me.pem", "incomplete"),
    ],
)
def test_what_is_not_a_url_of_zookeeper_is_refused(url: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        ZooKeeperOptions(url)
    assert SECRET not in str(caught.value)


def test_the_scheme_decides_which_store_it_is() -> None:
    assert isinstance(store_options(URL), ZooKeeperOptions)
    assert isinstance(store_options("postgresql://db/tubemq"), PostgresOptions)
