"""Spark at a cluster that lets nobody in without permission, nor without TLS: tasks work with the driver's tokens.

The canary: the user's secret and tokens are looked for in all that Spark and pytubemq write while a job runs.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest

import pytubemq.sync
from pytubemq.client.session.cluster_connection import OLD_TOKEN
from pytubemq.errors import NotAllowedError
from pytubemq.model.cluster_address import ClusterAddress
from pytubemq.net.iothread import IoThread
from pytubemq.spark.sink.connection import forget
from pytubemq.spark.sink.options import parse_options
from pytubemq.spark.sink.writer import _known
from pytubemq.spark.source.planning.plan import OffsetRange
from pytubemq.spark.source.read.fetch import close_kept, fetched_batches
from pytubemq.spark.source.read.source_connection import Cluster
from tests.scenario.security.secured import cluster, is_known, user, users_of
from tests.spark.security.job import ROWS
from tests.support.certificates import Authority
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.client.partition_state import Known
    from pytubemq.server.compose import Node

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

USER = "ann"
OWN_TOPICS = ("copies", "again", "rejected", "tasks", "lines")
"""Of one test each, in whatever order they run."""
GRANTED = tuple(
    f"{operation} topic {topic}" for operation in ("produce", "consume") for topic in ("orders", *OWN_TOPICS)
)
WATCH = """
import logging, os, sys

logging.basicConfig(level=logging.DEBUG)

def watch(event, arguments):
    if event == "open" and str(arguments[0]) == os.environ["WATCHED_FILE"]:
        context = sys.modules.get("pyspark.taskcontext")
        in_task = context is not None and context.TaskContext.get() is not None
        with open(os.environ["WATCH_LOG"], "a") as log:
            log.write("task\\n" if in_task else "driver\\n")

sys.addaudithook(watch)
"""
"""Runs in each Python process of the job: writes down who opens the file with the secret, and logs at DEBUG."""


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secured")


@pytest.fixture(scope="module")
def secret(scratch: Path) -> Path:
    """The file with the user's secret, outside of what is searched."""
    directory = scratch / "private"
    directory.mkdir()
    return directory / "ann.secret"


class Secured(NamedTuple):
    """A cluster that authenticates clients and has no port without TLS, its user's secret and its CA."""

    node: Node
    thread: IoThread
    secret: Path
    ca: str

    @property
    def address(self) -> str:
        """The Master's, with the CA and without a user."""
        return f"tls://{self.node.endpoints.master_tls}?ca={self.ca}"

    @property
    def signed_address(self) -> str:
        """The address with the user and the file of its secret."""
        return f"{self.address}&user={USER}&secret_file={self.secret}"

    @property
    def options(self) -> dict[str, str]:
        """What source and sink need."""
        return {"master": self.address, "user": USER, "secretFile": str(self.secret)}

    def rotate(self) -> str:
        """Give the user another secret and return it; the file stays as it is."""
        assert self.node.master is not None
        new = self.thread.run(users_of(self.node).rotate(USER, by=self.node.master.change_by("test")))
        self.thread.run(until(lambda: is_known(self.node)))
        return new.reveal()


@pytest.fixture(scope="module")
def secured(scratch: Path, secret: Path) -> Iterator[Secured]:
    thread = IoThread(name="secured-cluster")
    authority = Authority(scratch)
    server = authority.issue()
    running = cluster(scratch / "cluster", cert=server.cert, key=server.key, ca=authority.path, plain=False)
    try:
        node = thread.run(running.__aenter__())
        try:
            assert node.master is not None
            for topic in OWN_TOPICS:
                thread.run(node.master.create_topic(topic, 2))
            ann = thread.run(user(node, USER, *GRANTED))
            secret.touch(mode=0o600)
            secret.write_text(ann.secret.reveal())
            yield Secured(node, thread, secret, authority.path)
        finally:
            thread.run(running.__aexit__(None, None, None))
    finally:
        thread.close()


@pytest.fixture(scope="module")
def options(secured: Secured) -> dict[str, str]:
    return secured.options


@pytest.fixture(scope="module")
def found(scratch: Path, secret: Path, options: dict[str, str]) -> dict[str, Any]:
    """What the job has found; its files are in `scratch / "job"`."""
    return run_job(scratch / "job", secret, options)


def run_job(directory: Path, secret: Path, options: dict[str, str]) -> dict[str, Any]:
    watch = directory / "watch"
    watch.mkdir(parents=True)
    (watch / "sitecustomize.py").write_text(WATCH)
    path = os.pathsep.join([str(watch), str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")])
    environ = {**os.environ, "PYTHONPATH": path, "WATCHED_FILE": str(secret), "WATCH_LOG": str(directory / "opened")}
    command = [sys.executable, "-m", "tests.spark.security.job", str(directory), json.dumps(options)]
    with (directory / "output.log").open("wb") as log:
        done = subprocess.run(command, env=environ, stdout=log, stderr=log, timeout=540, check=False)
    text = (directory / "output.log").read_text(errors="replace")
    assert done.returncode == 0, text[-5_000:]
    return json.loads((directory / "found.json").read_text())  # type: ignore[no-any-return]


def test_who_is_permitted_reads_and_writes_in_batches_and_streams(found: dict[str, Any]) -> None:
    assert found["found"] == sorted([*range(ROWS), *range(ROWS)])
    assert found["ended"]
    assert found["copies"] == 2 * ROWS


def test_a_missing_permission_is_named_with_the_command_that_grants_it(found: dict[str, Any]) -> None:
    assert [f"permission grant {USER} describe topic payments" in text for text in found["refused"]] == [True, True]


def test_no_task_reads_the_secret(found: dict[str, Any], scratch: Path) -> None:
    assert set((scratch / "job" / "opened").read_text().split()) == {"driver"}


def test_no_secret_and_no_token_is_in_what_spark_writes(found: dict[str, Any], scratch: Path, secret: Path) -> None:
    hidden = {
        "the secret": secret.read_bytes(),
        "a token": b"." + base64.urlsafe_b64encode(USER.encode()).rstrip(b"=") + b".",
    }
    searched = [path for path in (scratch / "job").rglob("*") if path.is_file()]
    hits = [(what, path) for path in searched for what, text in hidden.items() if text in path.read_bytes()]
    assert hits == []
    names = {path.relative_to(scratch / "job").parts[0] for path in searched}
    assert {"output.log", "events", "checkpoint", "explain.txt", "errors.txt", "progress.json"} <= names
    log = (scratch / "job" / "output.log").read_text(errors="replace")
    assert " DEBUG " in log, "the log is one at DEBUG"
    assert str(secret) in (scratch / "job" / "explain.txt").read_text() + log, "options are shown there"


def task(options: dict[str, str], known: Known, wanted: OffsetRange) -> int:
    """The rows that a task reads which has nothing but what the driver passes on."""
    cluster = Cluster(ClusterAddress.parse(options["master"]), known=known)
    try:
        batches = fetched_batches(cluster, wanted, ["body"], time_zone=ZoneInfo("UTC"))
        return sum(batch.num_rows for batch in batches)
    finally:
        cluster.forget()
        close_kept()


def test_a_task_has_its_tokens_renewed_and_says_so_when_they_are_too_old(secured: Secured) -> None:
    options = secured.options
    with pytubemq.sync.connect(secured.signed_address) as tube:
        with tube.producer("tasks") as producer:
            producer.send(b"x")
        ends = tube.offsets(tube.partitions("tasks"))
        partition, (first, end) = next((one, span) for one, span in ends.items() if span[1] > span[0])
        known = tube.known
    wanted = OffsetRange(partition, first, end)
    rows = task(options, known, wanted)
    assert rows > 0
    # the visit token of a task that was planned long ago: the Master renews it against the client's token
    assert task(options, replace(known, visit_token=1), wanted) == rows
    old = replace(known, visit_token=1, client_token=known.client_token[:-1] + "-")
    with pytest.raises(NotAllowedError) as caught:
        task(options, old, wanted)
    assert caught.value.hint == OLD_TOKEN


PIPELINE = """
name: copied
source:
  topic: lines
  master: "{master}"
  user: "${{env:ORDERS_USER}}"
  secret_file: ../private/ann.secret
  start: earliest
decode: {{format: json, schema: id BIGINT}}
sinks: [{{name: copies, format: tubemq, topic: again}}]
dead_letter: {{format: tubemq, topic: rejected}}
"""


def test_a_pipeline_names_its_user_and_reads_writes_and_keeps_dead_letters(scratch: Path, secured: Secured) -> None:
    secret = secured.secret
    home = scratch / "pipeline"
    home.mkdir()
    (home / "copied.yaml").write_text(PIPELINE.format(master=secured.address))
    environ = {**os.environ, "ORDERS_USER": USER, "XDG_CONFIG_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}

    def pipeline(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "pytubemq", "pipeline", *arguments]
        return subprocess.run(command, env=environ, cwd=home, capture_output=True, timeout=300, check=False)

    with pytubemq.sync.connect(secured.signed_address) as tube:
        with tube.producer("lines") as producer:
            producer.send(b'{"id": 7}')
            producer.send(b"not JSON")
        secret.chmod(0o640)
        refused = pipeline("run", "copied.yaml", "--once")
        assert (refused.returncode == 0, b"source.secret_file" in refused.stderr) == (False, True), refused.stderr
        secret.chmod(0o600)
        ran = pipeline("run", "copied.yaml", "--once", "-v")
        assert ran.returncode == 0, ran.stderr.decode()
        ends = tube.offsets([*tube.partitions("again"), *tube.partitions("rejected")])
        assert {partition.topic for partition, (_, end) in ends.items() if end} == {"again", "rejected"}
    listed = pipeline("dlq", "list", "copied.yaml", "-o", "json")
    assert listed.returncode == 0, listed.stderr.decode()
    report = pipeline("report", "copied.yaml")
    said = b"".join(one.stdout + one.stderr for one in (refused, ran, listed, report))
    written = [path.read_bytes() for path in home.rglob("*") if path.is_file()]
    assert [text for text in (said, *written) if secret.read_bytes() in text] == []


def test_a_write_after_the_secret_has_changed_reads_the_file_again(secured: Secured) -> None:
    asked = parse_options({**secured.options, "topic": "orders"}, streaming=False)
    first = _known(asked)
    assert first is not None
    new = secured.rotate()
    with pytest.raises(NotAllowedError, match="the user or its secret is wrong"):
        _known(asked)
    secured.secret.write_text(new)
    second = _known(asked)
    assert second is not None
    assert first.client_token != second.client_token
    forget(asked.masters)
