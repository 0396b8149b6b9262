"""References stay references until they are needed; what is a secret is not shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ConfigError
from pytubemq.pipelines.file import secrets
from pytubemq.pipelines.file.model import Pipeline, Sink, Source
from pytubemq.pipelines.file.secrets import (
    MOST_GIVEN_OUT,
    holds_plain_secret,
    redact,
    references,
    resolve,
    resolve_all,
    with_variables,
    without_secrets,
)
from pytubemq.pipelines.file.texts import hide_secrets

if TYPE_CHECKING:
    from pathlib import Path


def test_references_become_what_they_stand_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OUT", "/out")
    monkeypatch.setenv("TRICK", "${env:OUT}")
    (tmp_path / "password").write_text("s3cret\n", "utf-8")
    assert resolve(f"a ${{env:OUT}}/b ${{file:{tmp_path}/password}} $${{c}} $5") == "a /out/b s3cret ${c} $5"
    assert resolve("${env:TRICK}") == "${env:OUT}"  # what is put in is not looked at again
    assert resolve("${env:NOT_THERE:-else}${env:NOT_THERE:-}") == "else"
    assert resolve("${file:/not/there:-x}") == "x"
    assert resolve_all({"a": "${env:OUT}", "b": "c"}) == {"a": "/out", "b": "c"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("${env:NOT_THERE}", "the environment variable NOT_THERE is not set"),
        ("${file:/not/there}", "/not/there cannot be read"),
        ("${var:x}", "the variable x has no value"),
        ("${x}", "is not a reference"),
        ("${env:1x}", "is not a reference"),
        ("${", "is not a reference"),
    ],
)
def test_a_reference_to_nothing_is_refused_by_its_name(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        resolve(text)


def test_a_file_too_long_for_a_secret_or_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "long").write_text("x" * 65_537, "utf-8")
    (tmp_path / "binary").write_bytes(b"\xff")
    for name, said in (("long", "longer than"), ("binary", "not text")):
        with pytest.raises(ConfigError, match=said):
            resolve(f"${{file:{tmp_path}/{name}}}")


def test_variables_are_put_in_and_the_rest_is_left() -> None:
    assert with_variables("${var:a}/${env:B}/${var:c:-d}/${var:e}", {"a": "1"}) == "1/${env:B}/d/${var:e}"
    assert [reference.kind for reference in references("${var:a}$${b}${c}")] == ["var", ""]


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("password", "hunter2", "***"),
        ("password", "${env:PGPASSWORD}", "${env:PGPASSWORD}"),
        ("fs.s3a.secret.key", "abc", "***"),
        ("user", "me", "me"),
        ("url", "jdbc:postgresql://h/d?user=me&password=hunter2&x=1", "jdbc:postgresql://h/d?user=me&password=***&x=1"),
        ("url", "jdbc:x://me:hunter2@h/d", "jdbc:x://me:***@h/d"),
        ("url", "jdbc:x://h/d?password=${env:P}", "jdbc:x://h/d?password=${env:P}"),
        ("kafka.sasl.jaas.config", 'x required username="u" password="p";', 'x required username="u" password=***;'),
        ("passing", "yes", "yes"),
        ("spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net", "abc==", "***"),
        ("fs.azure.sas.box.lake.blob.core.windows.net", "sv=1", "***"),
        ("kafka.ssl.keystore.key", "-----BEGIN", "***"),
        ("basic.auth.user.info", "me:hunter2", "***"),
        ("sslPassword", "hunter2", "***"),
        ("password.file", "/run/p", "/run/p"),
        ("idempotency_key", "id", "id"),
        ("keys", "id", "id"),
        ("url", "jdbc:mysql://h/d?user=me&sslPassword=hunter2", "jdbc:mysql://h/d?user=me&sslPassword=***"),
        ("url", "jdbc:mysql://(host=h,user=u,password=p)/d", "jdbc:mysql://(host=h,user=u,password=***"),
        ("path", "https://lake/x?sv=2&sig=a%2Bb&se=3", "https://lake/x?sv=2&sig=***&se=3"),
        (
            "url",
            "sb://h/;SharedAccessKeyName=n;SharedAccessKey=k=",
            "sb://h/;SharedAccessKeyName=n;SharedAccessKey=***",
        ),
        ("url", "jdbc:x://h/d?sslkey=/etc/k.pk8", "jdbc:x://h/d?sslkey=/etc/k.pk8"),
        ("url", "jdbc:x://u:p@ss@h:5432/d", "jdbc:x://u:***@h:5432/d"),
        ("url", "jdbc:x://u:p/ss@h/d", "jdbc:x://u:***@h/d"),
        ("url", "jdbc:x://h:5432/d?user=me@corp", "jdbc:x://h:5432/d?user=me@corp"),
        ("url", "jdbc:oracle:thin:scott/tiger@//h:1521/s", "jdbc:oracle:thin:scott/***@//h:1521/s"),
        ("url", "jdbc:oracle:thin:scott/${env:P}@//h:1521/s", "jdbc:oracle:thin:scott/${env:P}@//h:1521/s"),
        ("password", "${env:P:-hunter2}", "${env:P:-***}"),
        ("password", "${env:P:-}", "${env:P:-}"),
        ("password", "a${file:/p}b", "***${file:/p}***"),
        ("user", "${env:U:-me}", "${env:U:-me}"),
        ("url", "jdbc:x://${env:H:-h}/d?password=${env:P:-x}&a=1", "jdbc:x://${env:H:-h}/d?password=${env:P:-***}&a=1"),
        ("url", "jdbc:x://me:${env:P:-hunter2}@h/d", "jdbc:x://me:${env:P:-***}@h/d"),
        ("url", "${env:URL:-jdbc:x://me:hunter2@h/d}", "${env:URL:-***}"),
        ("url", "jdbc:x://me:a${env:P}@h/d?token=t", "jdbc:x://me:***${env:P}@h/d?token=***"),
        (
            "kafka.sasl.jaas.config",
            'x username="u" password="${env:P:-hunter2}";',
            'x username="u" password=***${env:P:-***}***;',
        ),
    ],
)
def test_what_is_shown_holds_no_secret(name: str, text: str, shown: str) -> None:
    assert redact(name, text) == shown
    assert holds_plain_secret(name, text) == (text != shown)


def test_what_references_became_is_hidden_in_what_others_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(secrets, "_given_out", {})
    (tmp_path / "pem").write_text("first line\nsecond line\n", "utf-8")
    for name, value in {"KEY": "hunter-2", "PLACE": str(tmp_path), "SHORT": "abc", "SHOWN": "seen-topic"}.items():
        monkeypatch.setenv(name, value)
    resolve(f"${{env:KEY}} ${{env:PLACE}} ${{env:SHORT}} ${{env:NONE:-in the file}} ${{file:{tmp_path}/pem}}")
    resolve("${env:SHOWN}", secret=False)
    said = f"WHERE k = 'hunter-2' AND p = '{tmp_path}' AND abc AND in the file AND second line AND seen-topic"
    assert without_secrets(said) == said.replace("hunter-2", "***").replace("second line", "***")


def test_defaults_are_hidden_where_they_are_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_given_out", {})
    assert resolve("${env:NOT_THERE:-orders}") == "orders"
    given = {"password": "${env:NOT_THERE:-hunter-2}", "user": "${env:NOT_THERE:-someone}"}
    assert resolve_all(given) == {"password": "hunter-2", "user": "someone"}
    sink = Sink("db", "jdbc", url="jdbc:x://me:${env:NOT_THERE:-hunter-3}@${env:H:-host}/d", table="t")
    hide_secrets(Pipeline("p", Source(topics=("t",)), sinks=(sink,)))
    assert without_secrets("orders someone hunter-2 hunter-3 host") == "orders someone *** *** host"
    monkeypatch.setenv("SET", "the-same")
    assert resolve("${env:SET:-the-same}") == "the-same"
    assert without_secrets("the-same") == "***"  # it came from outside, though the file has it, too


def test_only_so_many_values_are_kept_to_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_given_out", {})
    for number in range(MOST_GIVEN_OUT + 1):
        monkeypatch.setenv("KEY", f"value-{number:06}")
        resolve("${env:KEY}")
    assert without_secrets("value-000000") == "value-000000"
    assert without_secrets(f"value-{MOST_GIVEN_OUT:06}") == "***"
