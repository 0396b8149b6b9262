"""Users of a pipeline's clusters: named with a file, which is looked at where clusters may be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytubemq.errors import ConfigError
from pytubemq.model.cluster_address import ClusterAddress
from pytubemq.pipelines.file.cluster_keys import address_of, user_options
from pytubemq.pipelines.file.model import ClusterKeys, DeadLetter, Pipeline, Sink, Source
from pytubemq.pipelines.file.secrets import holds_plain_secret
from pytubemq.pipelines.file.source_positions import unplaced
from pytubemq.pipelines.opening import open_pipeline
from pytubemq.pipelines.rules.environment import usable_users
from pytubemq.pipelines.rules.rule import Context, Need

HERE = Need.FILE | Need.VALUES | Need.CLUSTER


def faults(pipeline: Pipeline, sees: Need = Need.FILE) -> list[tuple[str, str]]:
    found = usable_users.check(Context(pipeline, unplaced(pipeline), sees))
    return [(fault.path, fault.message) for fault in found]


def test_a_user_and_its_file_go_together() -> None:
    pipeline = Pipeline(
        "p",
        Source(user="ann"),
        sinks=(Sink("a", "tubemq", secret_file="/f"),),
        dead_letter=DeadLetter("tubemq", user="ann", secret_file="/f"),
    )
    assert faults(pipeline) == [
        ("source.user", "has no meaning without secret_file"),
        ("sinks[0].secret_file", "has no meaning without user"),
    ]


def test_a_file_is_looked_at_where_clusters_may_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ann.secret"
    monkeypatch.setenv("ANNS", str(file))
    pipeline = Pipeline("p", Source(user="ann", secret_file="${env:ANNS}"))
    assert faults(pipeline) == []
    ((path, message),) = faults(pipeline, HERE)
    assert (path, "cannot be read" in message) == ("source.secret_file", True)
    file.write_text("pssst")
    file.chmod(0o644)
    ((_, message),) = faults(pipeline, HERE)
    assert "is open to other users" in message
    file.chmod(0o600)
    assert faults(pipeline, HERE) == []


def test_the_name_of_a_file_is_no_secret() -> None:
    assert not holds_plain_secret("secret_file", "/etc/ann.secret")
    assert not holds_plain_secret("secretFile", "/etc/ann.secret")
    assert holds_plain_secret("secret", "pssst")
    assert holds_plain_secret("client_secret", "pssst")
    assert holds_plain_secret("secret_files_key", "pssst")
    assert holds_plain_secret("master", "m1?user=ann&secret=pssst")


def test_a_sink_without_masters_takes_the_source_s_cluster_and_user() -> None:
    source = Source(master="m1", user="ann", secret_file="/ann")
    own, other = Sink("a", "tubemq", user="eve", secret_file="/eve"), Sink("b", "tubemq", master="m2")
    pipeline = Pipeline("p", source, sinks=(Sink("c", "tubemq"), own, other), dead_letter=DeadLetter("tubemq"))
    assert [pipeline.cluster_of(one) for one in pipeline.sinks] == [
        ClusterKeys("m1", "ann", "/ann"),
        ClusterKeys("m1", "eve", "/eve"),
        ClusterKeys("m2"),
    ]
    assert pipeline.dead_letter is not None
    assert pipeline.cluster_of(pipeline.dead_letter) == ClusterKeys("m1", "ann", "/ann")
    named = pipeline.with_masters()
    assert [named.cluster_of(one) for one in named.sinks] == [pipeline.cluster_of(one) for one in pipeline.sinks]
    assert user_options(named.sinks[0]) == {"user": "ann", "secretFile": "/ann"}
    assert user_options(named.sinks[2]) == {}
    assert address_of(pipeline.cluster_of(own)) == ClusterAddress.parse("m1?user=eve&secret_file=/eve")
    with pytest.raises(ConfigError, match="given twice"):
        address_of(ClusterKeys("m1?user=a&secret_file=b", "ann", "/ann"))


def test_a_secret_file_is_beside_the_pipeline_file(tmp_path: Path) -> None:
    text = """
name: p
source: {topic: t, master: m1, user: ann, secret_file: ann.secret}
sinks: [{name: a, format: tubemq, topic: u, user: eve, secret_file: ~/eve.secret}]
"""
    (tmp_path / "p.yaml").write_text(text)
    pipeline = open_pipeline(tmp_path / "p.yaml")
    assert pipeline.source.secret_file == str(tmp_path / "ann.secret")
    assert pipeline.source.master == "m1"
    assert pipeline.sinks[0].secret_file == str(Path.home() / "eve.secret")


def test_the_user_of_the_file_counts_before_that_of_a_profile(tmp_path: Path) -> None:
    text = """
name: p
source: {topic: t, user: ann, secret_file: ann.secret}
sinks: [{name: a, format: console}]
"""
    (tmp_path / "p.yaml").write_text(text)
    pipeline = open_pipeline(tmp_path / "p.yaml", master="tls://m1?ca=/ca.pem&user=eve&secret_file=/eve")
    assert (pipeline.source.master, pipeline.source.user) == ("tls://m1:8716?ca=/ca.pem", "ann")
