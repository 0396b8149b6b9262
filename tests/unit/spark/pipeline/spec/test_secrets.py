"""References stay references until they are needed; what is a secret is not shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ConfigError
from pytubemq.spark.pipeline.spec.secrets import (
    holds_plain_secret,
    redacted,
    references,
    resolve,
    resolve_all,
    with_variables,
)

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
        ("${x}", "is no reference"),
        ("${env:1x}", "is no reference"),
        ("${", "is no reference"),
    ],
)
def test_a_reference_to_nothing_is_refused_by_its_name(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        resolve(text)


def test_a_file_too_long_for_a_secret_or_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "long").write_text("x" * 65_537, "utf-8")
    (tmp_path / "binary").write_bytes(b"\xff")
    for name, said in (("long", "longer than"), ("binary", "no text")):
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
    ],
)
def test_what_is_shown_holds_no_secret(name: str, text: str, shown: str) -> None:
    assert redacted(name, text) == shown
    assert holds_plain_secret(name, text) == (text != shown)
