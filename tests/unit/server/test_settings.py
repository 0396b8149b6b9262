"""Settings: one file, the environment over it, flags over both; nothing unknown, nothing unsafe by accident."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytubemq.errors import ConfigError, ExitCode
from pytubemq.model.durability import Durability
from pytubemq.model.tls_options import TlsOptions
from pytubemq.server.settings import Settings
from pytubemq.server.sources import known_keys, load_settings, setting_rows, to_toml


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "server.toml"
    path.write_text(text, "utf-8")
    return path


def test_defaults_listen_on_this_machine_only() -> None:
    settings = load_settings(None, environ={})
    assert (settings.master.listen, settings.broker.listen, settings.http.listen) == (
        "127.0.0.1:8715",
        "127.0.0.1:8123",
        "127.0.0.1:8080",
    )
    assert settings.broker.durability is Durability.DISK


def test_flags_win_over_environment_over_file(tmp_path: Path) -> None:
    path = write(tmp_path, 'data = "/file"\n[master]\nlisten = "127.0.0.1:1"\n[broker]\nid = 7\n')
    environ = {"PYTUBEMQ_MASTER__LISTEN": "127.0.0.1:2", "PYTUBEMQ_DATA": "/environment", "HOME": "/root"}
    settings = load_settings(path, environ=environ, flags={"master.listen": "127.0.0.1:3"})
    assert settings.master.listen == "127.0.0.1:3"
    assert settings.data == "/environment"
    assert settings.broker.id == 7


def test_environment_values_take_their_types() -> None:
    environ = {
        "PYTUBEMQ_BROKER__ID": "12",
        "PYTUBEMQ_BROKER__MASTERS": "a:1, b:2",
        "PYTUBEMQ_INSECURE": "yes",
        "PYTUBEMQ_MASTER__CLIENT_TIMEOUT_S": "2.5",
    }
    settings = load_settings(None, environ=environ)
    assert (settings.broker.id, settings.broker.masters, settings.insecure) == (12, ["a:1", "b:2"], True)
    assert settings.master.client_timeout_s == 2.5
    assert settings.master.broker_timeout_s == 0


@pytest.mark.parametrize(
    ("text", "key", "near", "line"),
    [
        ('[master]\nlistne = "127.0.0.1:1"\n', "master.listne", "master.listen", 2),
        ("# first\n[brokr]\nid = 1\n", "brokr.id", "broker.id", 3),
        ('dat = "x"\n', "dat", "data", 1),
        ("[brokr]\n", "brokr", "broker", 1),
        ("brokr = 1\n", "brokr", "broker", 1),
        ('data = "x"\n\n[broker]\nid = 2\ndurabilty = "disk"\n', "broker.durabilty", "broker.durability", 5),
    ],
)
def test_an_unknown_key_is_refused_with_its_place_and_the_nearest_name(
    tmp_path: Path, text: str, key: str, near: str, line: int
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_settings(path, environ={})
    assert repr(key) in caught.value.message
    assert f"{path}:{line}" in caught.value.message
    assert caught.value.hint == f"did you mean {near!r}?"
    assert caught.value.exit_code == ExitCode.BAD_CONFIG


def test_an_unknown_empty_section_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'mastr'"):
        load_settings(write(tmp_path, "[mastr]\n"), environ={})
    load_settings(write(tmp_path, "[master]\n"), environ={})


def test_a_misspelt_variable_is_refused_and_those_of_others_are_left_alone() -> None:
    with pytest.raises(ConfigError, match=r"PYTUBEMQ_MASTER__LISTN.*master\.listn"):
        load_settings(None, environ={"PYTUBEMQ_MASTER__LISTN": "x"})
    with pytest.raises(ConfigError, match="insecur"):
        load_settings(None, environ={"PYTUBEMQ_INSECUR": "true"})
    # what Kubernetes sets for a service that is named pytubemq, and what the command line reads
    load_settings(
        None, environ={"PYTUBEMQ_PORT_8715_TCP": "tcp://", "PYTUBEMQ_SERVICE_HOST": "x", "PYTUBEMQ_PROFILE": "p"}
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[broker]\nid = 0\n", "broker.id"),
        ('[broker]\nid = "x"\n', "broker.id"),
        ('[broker]\ndurability = "maybe"\n', "broker.durability"),
        ("[master]\nclient_timeout_s = -1\n", "master.client_timeout_s"),
        ('[http]\nlisten = "127.0.0.1:99999"\n', "http.listen"),
        ('[broker]\nmasters = ["nowhere:port"]\n', "broker.masters"),
    ],
)
def test_a_wrong_value_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_settings(write(tmp_path, text), environ={})


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("broker.durability", "foo", "broker.durability is 'foo', not one of disk, process, memory"),
        ("log.level", "loud", "log.level is 'loud', not one of debug, info, warning, error"),
        (
            "broker.segment_bytes",
            "12",
            "broker.segment_bytes is '12', not a whole number from 1048576 to 1099511627776",
        ),
        ("broker.retention_check_s", "0", "broker.retention_check_s is '0', not a number above 0 and up to 86400"),
        ("insecure", "perhaps", "insecure is 'perhaps', not one of true, false"),
    ],
)
def test_what_a_setting_may_be_is_said_once(key: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(None, environ={}, flags={key: value})
    assert caught.value.message == said
    assert caught.value.__cause__ is None  # the command line would show it as a second reason
    assert key in str(caught.value.hint)


def test_a_listening_address_that_is_a_word_alone_is_told_its_form() -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(None, environ={}, flags={"broker.listen": "foo"})
    assert caught.value.message == "broker.listen = 'foo' has no port, and 'foo' is not an address of this machine"
    assert caught.value.hint == "write host:port, as in 127.0.0.1:8123"
    assert load_settings(None, environ={}, flags={"broker.listen": "127.0.0.1"}).broker.listen == "127.0.0.1"


BEYOND = ["0.0.0.0:1", "192.168.0.1:1", "example.org:1"]


@pytest.mark.parametrize(
    ("section", "listen"),
    [*((section, listen) for section in ("master", "broker", "http") for listen in BEYOND), ("http", "[::]:1")],
)
def test_listening_beyond_this_machine_must_be_asked_for(section: str, listen: str) -> None:
    with pytest.raises(ConfigError, match=rf"{section}\.listen") as caught:
        load_settings(None, environ={}, flags={f"{section}.listen": listen})
    assert "insecure = true" in str(caught.value.hint)
    assert "TLS" in str(caught.value)
    load_settings(None, environ={}, flags={f"{section}.listen": listen, "insecure": True})


@pytest.mark.parametrize(
    "key", ["master.listen", "broker.listen", "master.advertised", "broker.advertised", "broker.masters"]
)
def test_an_ipv6_address_is_refused_where_the_protocol_cannot_carry_it(key: str) -> None:
    value: object = ["[::1]:1"] if key == "broker.masters" else "[::1]:1"
    with pytest.raises(ConfigError, match=rf"{key} = '\[::1\]:1' is an IPv6 address") as refused:
        load_settings(None, environ={}, flags={key: value, "insecure": True})
    assert "IPv4" in (refused.value.hint or "")


@pytest.mark.parametrize("text", ['["127.0.0.1:28715"]', '["localhost"]', "a:b:1"])
def test_what_is_no_address_is_not_called_an_ipv6_one(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^broker\.masters = .* is not an address\n") as refused:
        load_settings(None, environ={}, flags={"broker.masters": [text]})
    assert "write host:port" in (refused.value.hint or "")


def test_http_may_listen_on_ipv6() -> None:
    assert load_settings(None, environ={}, flags={"http.listen": "[::1]:1"}).http.listen == "[::1]:1"


@pytest.mark.parametrize("listen", ["127.0.0.1:1", "127.8.8.8:1", "localhost:1"])
def test_loopback_is_free(listen: str) -> None:
    assert load_settings(None, environ={}, flags={"master.listen": listen}).master.listen == listen


def test_an_advertised_address_is_its_own_setting() -> None:
    settings = load_settings(None, environ={}, flags={"broker.advertised": "broker.example.org:8123"})
    assert settings.broker.listen == "127.0.0.1:8123"


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml.*No such file"):
        load_settings(tmp_path / "nowhere.toml", environ={})
    with pytest.raises(ConfigError, match="not TOML"):
        load_settings(write(tmp_path, "listen = = 1"), environ={})


def test_a_written_file_reads_back_the_same(tmp_path: Path) -> None:
    flags = {"data": '/a "b" \\ ü', "broker.masters": ["a:1", "b:2"], "broker.id": 3, "log.format": "json"}
    settings = load_settings(None, environ={}, flags=flags)
    assert load_settings(write(tmp_path, to_toml(settings)), environ={}) == settings


def test_every_setting_is_described() -> None:
    rows = setting_rows()
    assert {str(row["key"]) for row in rows} == set(known_keys())
    assert all(row["meaning"] for row in rows)
    # each variable really sets its key
    defaults = Settings()
    environ = {str(row["environment"]): str(row["default"]) for row in rows if not isinstance(row["default"], list)}
    assert load_settings(None, environ=environ) == defaults


def test_the_reference_names_every_setting() -> None:
    text = Path(__file__).parents[3].joinpath("docs/reference/settings.md").read_text("utf-8")
    missing = [key for key in known_keys() if f"`{key}`" not in text]
    assert not missing


@pytest.mark.parametrize("token", ["abc", "x" * 24, "changeme-changeme-changeme"])
def test_a_token_that_can_be_guessed_is_refused(token: str) -> None:
    with pytest.raises(ConfigError, match=rf"http\.token can be guessed: its {len(token)} characters") as refused:
        load_settings(None, environ={}, flags={"http.token": token})
    assert token not in str(refused.value)
    assert "secrets.token_urlsafe" in str(refused.value.hint)
    assert load_settings(None, environ={}, flags={"http.token": token, "insecure": True}).http.token == token
    sound = "p3Xv0aWq7ZkR_tB9mYcD2g"
    assert load_settings(None, environ={}, flags={"http.token": sound}).http.token == sound


@pytest.mark.parametrize(
    ("given", "alone", "needed"),
    [
        ({"tls.key": "k"}, "tls.key", "tls.cert"),
        ({"tls.client_ca": "c"}, "tls.client_ca", "tls.cert"),
        ({"tls.client_cert": "c"}, "tls.client_cert", "tls.ca"),
        ({"tls.ca": "c", "tls.client_key": "k"}, "tls.client_key", "tls.client_cert"),
        ({"http.tls_key": "k"}, "http.tls_key", "http.tls_cert"),
    ],
)
def test_a_tls_file_needs_the_one_that_it_belongs_to(given: dict[str, object], alone: str, needed: str) -> None:
    with pytest.raises(ConfigError, match=rf"{alone} has no meaning without {needed}"):
        load_settings(None, environ={}, flags=given)


def test_tls_alone_does_not_open_a_server_to_other_machines() -> None:
    with pytest.raises(ConfigError, match="would listen beyond this machine"):
        load_settings(None, environ={}, flags={"tls.cert": "c", "master.listen": "0.0.0.0:8715"})


def test_options_for_other_servers_of_the_cluster() -> None:
    settings = load_settings(None, environ={}, flags={"tls.ca": "ca.pem", "tls.client_cert": "c.pem"})
    assert settings.tls.to_servers() == TlsOptions("ca.pem", "c.pem")
    assert load_settings(None, environ={}).tls.to_servers() is None


TLS = {"tls.cert": "s.pem", "tls.ca": "ca.pem"}


@pytest.mark.parametrize("missing", ["cert", "ca"])
def test_closed_plain_ports_need_tls_for_clients_and_servers(missing: str) -> None:
    given = {key: value for key, value in TLS.items() if key != f"tls.{missing}"}
    with pytest.raises(ConfigError, match=f"needs tls.{missing}"):
        load_settings(None, environ={}, flags={**given, "tls.plain": "false"})


def test_rpc_may_listen_beyond_this_machine_over_tls_with_authentication_alone() -> None:
    secure = {**TLS, "tls.plain": "false", "security.authentication": "enforced"}
    beyond = {"master.listen": "0.0.0.0:8715", "broker.listen": "0.0.0.0:8123"}
    assert load_settings(None, environ={}, flags={**secure, **beyond}).master.listen == "0.0.0.0:8715"
    for weaker in ({"tls.plain": "true"}, {"security.authentication": "permissive"}):
        with pytest.raises(ConfigError, match="without TLS or without authentication"):
            load_settings(None, environ={}, flags={**secure, **weaker, **beyond})


@pytest.mark.parametrize("key", ["http.listen", "broker.http_listen"])
def test_http_may_listen_beyond_this_machine_over_tls_with_authentication_alone(key: str) -> None:
    secure = {"http.tls_cert": "s.pem", "security.authentication": "enforced", key: "0.0.0.0:8080"}
    load_settings(None, environ={}, flags=secure)
    for weaker in ({"http.tls_cert": ""}, {"security.authentication": "permissive"}):
        with pytest.raises(ConfigError, match=f"{key} .* without TLS or without authentication"):
            load_settings(None, environ={}, flags={**secure, **weaker})


OIDC = {
    "security.authentication": "enforced",
    "security.oidc_issuer": "https://issuer.example",
    "security.oidc_audience": "tubemq",
    "security.oidc_keys": "keys.json",
}


@pytest.mark.parametrize("missing", [key for key in OIDC if "oidc" in key])
def test_an_issuer_needs_its_audience_and_its_keys(missing: str) -> None:
    rules = load_settings(None, environ={}, flags=OIDC).security.token_rules()
    assert (rules.issuer, rules.audience, rules.user_claim, rules.users) == (
        "https://issuer.example", "tubemq", "sub", {},
    )  # fmt: skip
    with pytest.raises(ConfigError, match=f"has no meaning without {missing}"):
        load_settings(None, environ={}, flags={**OIDC, missing: ""})


def test_an_issuer_needs_authentication() -> None:
    with pytest.raises(ConfigError, match="no meaning while authentication is off"):
        load_settings(None, environ={}, flags={**OIDC, "security.authentication": "off"})
    with pytest.raises(ConfigError, match=r"oidc_users has no meaning without security.oidc_issuer"):
        load_settings(None, environ={}, flags={"security.oidc_users": ["a:b"]})


def test_users_by_a_claim_are_read_up_to_the_last_colon() -> None:
    given = {**OIDC, "security.oidc_users": ["urn:x:ann:a=b", " 7f3c : bob "], "security.oidc_user_claim": "dn"}
    rules = load_settings(None, environ={}, flags=given).security.token_rules()
    assert (rules.user_claim, rules.users) == ("dn", {"urn:x:ann": "a=b", "7f3c": "bob"})
    for wrong in (["ann"], [":ann"], ["ann:"], ["a:x", "a:y"]):
        with pytest.raises(ConfigError, match=r"security.oidc_users: "):
            load_settings(None, environ={}, flags={**OIDC, "security.oidc_users": wrong})
