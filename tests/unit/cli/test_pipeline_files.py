"""The commands on pipeline files that need neither Spark nor a cluster: what they print, and how they end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.cli.conftest import Ran

    Tube = Callable[..., Ran]

FAULTY = """\
name: orders
source: {topic: demo}
decode: {format: json, schema: "id BIGINT", on_eror: drop}
sinks:
  - {name: lake, format: parquet, path: /lake, guarantee: exactly_once}
"""


def test_init_writes_a_file_without_faults_once(tube: Tube, tmp_path: Path) -> None:
    ran = tube("pipeline", "init", "my orders")
    assert ran.code == ExitCode.DONE
    assert "pipeline lint" in ran.err
    assert "name: my_orders" in (tmp_path / "my orders.yaml").read_text("utf-8")
    ran = tube("pipeline", "lint", "my orders.yaml")
    assert (ran.code, ran.out) == (ExitCode.DONE, "")
    assert "no faults" in ran.err
    ran = tube("pipeline", "init", "my orders")
    assert ran.code != ExitCode.DONE
    assert "exists already" in ran.err
    assert tube("pipeline", "init", "my orders", "--force", "--sink", "jdbc", "--format", "csv").code == ExitCode.DONE
    assert "format: jdbc" in (tmp_path / "my orders.yaml").read_text("utf-8")


def test_init_writes_a_directory_for_sparks_own_pipelines(tube: Tube, tmp_path: Path) -> None:
    assert tube("pipeline", "init", "mine", "--spark-pipelines", "--topic", "flights").code == ExitCode.DONE
    assert "storage: file:///" in (tmp_path / "mine/spark-pipeline.yml").read_text("utf-8")
    code = (tmp_path / "mine/transformations/mine.py").read_text("utf-8")
    compile(code, "mine.py", "exec")
    assert '.option("topic", "flights")' in code
    tube("profile", "add", "prod", "--master", "m:1,n:2", "--http", "http://m:3")
    assert tube("pipeline", "init", "theirs", "--spark-pipelines", "-P", "prod").code == ExitCode.DONE
    assert 'pytubemq.master: "m:1,n:2"' in (tmp_path / "theirs/spark-pipeline.yml").read_text("utf-8")


@pytest.mark.parametrize("how", [(), ("--spark-pipelines",)])
def test_init_refuses_a_topic_that_cannot_be_one_before_it_writes(
    tube: Tube, tmp_path: Path, how: tuple[str, ...]
) -> None:
    ran = tube("pipeline", "init", "mine", "--topic", 'a"b', *how)
    assert ran.code != ExitCode.DONE
    assert """not a topic name: 'a"b'""" in ran.err
    assert list(tmp_path.glob("mine*")) == []


def test_lint_tells_each_fault_on_a_line_and_ends_with_78(tube: Tube, tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text(FAULTY, "utf-8")
    ran = tube("pipeline", "lint", "orders.yaml")
    assert ran.code == ExitCode.BAD_CONFIG
    first, second = ran.out.splitlines()
    assert first == 'orders.yaml:3:45  error  decode.on_eror: unknown key, did you mean "on_error"?  [P012]'
    assert second.startswith("orders.yaml:5:59  warn   sinks.lake.guarantee: exactly_once without `state`, ")
    assert "1 error, 1 warning · exit 78" in ran.err
    assert "errors show P012 P207" in ran.err


def test_what_is_to_be_typed_next_has_the_variables_too_and_no_secret(tube: Tube, tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text("name: o\nsource: {topic: d}\nsinks: [{name: c, format: '${var:to}'}]\n")
    told = tube("pipeline", "lint", "orders.yaml", "--set", "to=console").err
    assert "pytubemq pipeline test orders.yaml --set to=console\n" in told
    told = tube("pipeline", "plan", "orders.yaml", "--set", "oot=/my x", "--set", "password=p4ssw0rd").err
    assert "pytubemq pipeline lint orders.yaml --set 'oot=/my x' --set 'password=***'" in told
    assert "p4ssw0rd" not in told


def test_all_codes_of_a_file_are_explained_at_once(tube: Tube) -> None:
    shown = tube("errors", "show", "P012", "TUBE-404", "-o", "json")
    assert [row["code"] for row in json.loads(shown.out)] == ["P012", "404"]
    assert tube("errors", "show", "P012", "P207").out.count("meaning") == 2
    assert json.loads(tube("errors", "show", "404", "-o", "json").out)["code"] == "404"
    assert tube("errors", "show", "P012", "nonsense").code == ExitCode.NOT_FOUND
    assert tube("errors", "show").code == ExitCode.USAGE


def test_lint_for_machines(tube: Tube, tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text(FAULTY, "utf-8")
    ran = tube("pipeline", "lint", "orders.yaml", "-o", "json")
    assert ran.code == ExitCode.BAD_CONFIG
    assert json.loads(ran.out)[0] == {
        "file": "orders.yaml", "line": 3, "column": 45, "severity": "error", "code": "P012", "key": "decode.on_eror",
        "message": "unknown key", "hint": 'did you mean "on_error"?',
    }  # fmt: skip
    assert tube("pipeline", "lint", "orders.yaml", "-o", "name").out.split() == ["P012", "P207"]


def test_warnings_alone_end_with_0(tube: Tube, tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text(FAULTY.replace("on_eror", "on_error"), "utf-8")
    ran = tube("pipeline", "lint", "orders.yaml")
    assert (ran.code, ran.out.count("\n")) == (ExitCode.DONE, 1)


def test_variables_are_given_by_set(tube: Tube, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(
        "name: x\nsource: {topic: '${var:t}'}\nsinks: [{name: c, format: console}]", "utf-8"
    )
    assert tube("pipeline", "lint", "x.yaml").code == ExitCode.BAD_CONFIG
    assert tube("pipeline", "lint", "x.yaml", "--set", "t=demo").code == ExitCode.DONE
    assert tube("pipeline", "lint", "x.yaml", "--set", "demo").code == ExitCode.USAGE
    ran = tube("pipeline", "plan", "x.yaml", "--offline", "--set", "t=demo", "--set", "tt=x")
    assert (ran.code, "did you mean" in ran.err) == (ExitCode.BAD_CONFIG, True)
    (tmp_path / "y.yaml").write_text("name: y\nsource: {topic: t}\nsinks: [{name: c, format: console}]", "utf-8")
    assert tube("pipeline", "lint", "x.yaml", "y.yaml", "--set", "t=demo").code == ExitCode.DONE
    assert tube("pipeline", "lint", "y.yaml", "--set", "t=demo").code == ExitCode.BAD_CONFIG


def test_lint_needs_a_file_and_prints_the_schema_without_one(tube: Tube) -> None:
    assert tube("pipeline", "lint").code == ExitCode.USAGE
    assert json.loads(tube("pipeline", "lint", "--schema").out)["required"] == ["name", "source", "sinks"]


@pytest.mark.parametrize("command", ["test", "dry-run", "plan"])
def test_a_file_with_errors_goes_no_further(tube: Tube, tmp_path: Path, command: str) -> None:
    (tmp_path / "orders.yaml").write_text(FAULTY, "utf-8")
    ran = tube("pipeline", command, "orders.yaml")
    assert ran.code == ExitCode.BAD_CONFIG
    assert "orders.yaml:3:45 decode.on_eror: unknown key" in ran.err


def test_a_file_without_tests_is_no_success(tube: Tube, tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text(FAULTY.replace(", on_eror: drop", ""), "utf-8")
    ran = tube("pipeline", "test", "orders.yaml")
    assert ran.code == ExitCode.BAD_CONFIG
    assert "has no tests" in ran.err


def test_plan_says_the_same_twice(tube: Tube, tmp_path: Path) -> None:
    tube("pipeline", "init", "orders.yaml")
    ran = tube("pipeline", "plan", "orders.yaml", "--offline")
    assert ran.code == ExitCode.DONE
    assert ran.out.startswith(f"demo ─┬─ json ─ paid ─ lake  parquet  {tmp_path}/tables/orders  exactly once\n")
    one, two = (tube("pipeline", "plan", "orders.yaml", "--offline", "-o", "json").out for _ in range(2))
    assert one == two
    assert [sink["guarantee"] for sink in json.loads(one)["sinks"]] == ["exactly once"]


def test_every_code_is_explained(tube: Tube) -> None:
    ran = tube("errors", "show", "TUBE-P012", "-o", "json")
    assert json.loads(ran.out)["name"] == "unknown-key"
    assert tube("errors", "show", "pipeline-file").code == ExitCode.DONE


@pytest.mark.parametrize("command", ["test", "dry-run", "plan"])
def test_without_pyspark_the_extra_is_named(tube: Tube, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    import importlib.util

    tube("pipeline", "init", "orders.yaml")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    ran = tube("pipeline", command, "orders.yaml")
    assert ran.code == ExitCode.BAD_CONFIG
    assert "[local-spark]" in ran.err
