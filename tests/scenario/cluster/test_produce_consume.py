"""Messages through the command line: any bytes, in a group and freely, errors that help."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
import urllib.request
from typing import TYPE_CHECKING

import pytest

import pytubemq
from pytubemq.errors import ExitCode

if TYPE_CHECKING:
    from pytubemq.server.cluster import ThreadedCluster

    from .conftest import CommandLine

pytestmark = pytest.mark.scenario


@pytest.fixture
def at(cluster: ThreadedCluster) -> tuple[str, str]:
    cluster.create_topic("t", partitions=3)
    return ("--master", cluster.master)


def test_any_bytes_come_out_as_they_went_in(tube: CommandLine, cluster: ThreadedCluster, at: tuple[str, str]) -> None:
    cluster.create_topic("copy", partitions=1)
    rng = random.Random(5)
    bodies = [bytes(range(256)), b"\n", b"\r\n\0", "ü€😀".encode(), b"%v\\n", b"{}", rng.randbytes(100_000)]
    bodies += [rng.randbytes(rng.randrange(1, 200)) for _ in range(200)]
    with pytubemq.sync.connect(cluster.master) as connection, connection.producer("t") as producer:
        for body in bodies:
            producer.send(body, attrs={"k": "v;1"}, msg_type="kind", partition=0)
    dumped = tube("consume", "t", "-f", "json", *at)
    assert dumped.returncode == ExitCode.DONE, dumped.stderr
    assert tube("produce", "copy", "--input", "json", *at, stdin=dumped.stdout).returncode == ExitCode.DONE
    copied = tube("consume", "copy", "-o", "jsonl", *at)
    before, after = (
        [{key: row.get(key) for key in ("body", "body_base64", "attributes", "msg_type")} for row in rows]
        for rows in ([json.loads(line) for line in text.splitlines()] for text in (dumped.stdout, copied.stdout))
    )
    assert len(before) == len(bodies)
    assert after == before
    assert tube("consume", "copy", "-f", "raw", *at).stdout == b"".join(bodies)


def test_a_file_as_one_message(tube: CommandLine, at: tuple[str, str]) -> None:
    data = random.Random(1).randbytes(700_000)
    (tube.home / "photo").write_bytes(data)
    assert tube("produce", "t", "-f", "photo", "--input", "raw", *at).returncode == ExitCode.DONE
    assert tube("consume", "t", "-f", "raw", *at).stdout == data


def test_every_output_form(tube: CommandLine, at: tuple[str, str]) -> None:
    sent = tube("produce", "t", "a,b", 'c"d', "--attr", "k=v", "--type", "kind", "--key", "same", *at)
    assert sent.returncode == ExitCode.DONE, sent.stderr
    assert b"sent 2 to t" in sent.stderr
    array = json.loads(tube("consume", "t", "-o", "json", *at).stdout)
    assert [row["body"] for row in array] == ["a,b", 'c"d']
    assert array[0]["attributes"] == {"k": "v"}
    assert [row["offset"] for row in array] == [0, 28]
    lines = tube("consume", "t", "-o", "jsonl", *at).stdout.splitlines()
    assert [json.loads(line) for line in lines] == array
    assert tube("consume", "t", "-o", "csv", *at).stdout.count(b"\n") == 3
    assert tube("consume", "t", "-o", "name", *at).stdout.splitlines()[1].endswith(b":28")
    assert b"BODY" in tube("consume", "t", "-o", "table", *at).stdout
    assert tube("consume", "t", "-f", "%t %o %m %a{k} %v{hex}\\n", "-n", "1", *at).stdout == b"t 0 kind v 612c62\n"
    assert json.loads(tube("consume", "t", "-o", "json", "--type", "other", *at).stdout) == []


def test_a_group_goes_on_where_it_was(tube: CommandLine, cluster: ThreadedCluster, at: tuple[str, str]) -> None:
    tube("produce", "t", *at, stdin=b"".join(b"%d\n" % number for number in range(30)))
    first = tube("consume", "t", "--group", "g", "-n", "10", *at)
    rest = tube("consume", "t", "--group", "g", "-n", "20", *at)
    numbers = [int(line) for line in (first.stdout + rest.stdout).split()]
    assert len(first.stdout.split()) == 10
    assert sorted(numbers) == list(range(30))
    listed = json.loads(tube("group", "list", "--http", cluster.http, "-o", "json").stdout)
    assert [(group["name"], group["lag_messages"]) for group in listed] == [("g", 0)]
    shown = json.loads(tube("group", "show", "g", "--http", cluster.http, "-o", "json").stdout)
    assert len(shown["lag"]) == 3
    assert tube("group", "show", "nobody", "--http", cluster.http).returncode == ExitCode.NOT_FOUND
    # reading freely touched no group, and a group that read it all gets nothing again
    assert tube("consume", "t", "--group", "g", "--idle", "0.5", *at).stdout == b""
    assert len(tube("consume", "t", *at).stdout.split()) == 30


def test_tail_prints_what_comes_and_ends_with_130(tube: CommandLine, at: tuple[str, str]) -> None:
    process = tube.start("consume", "t", "--tail", "--from", "earliest", *at)
    assert process.stdout is not None
    assert tube("produce", "t", "fresh", *at).returncode == ExitCode.DONE
    assert process.stdout.readline() == b"fresh\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == ExitCode.INTERRUPTED
    assert process.stderr is not None
    assert b"Traceback" not in process.stderr.read()


def test_tail_names_a_server_that_is_gone_and_that_it_is_back(tube: CommandLine) -> None:
    dev, ready = tube.dev()
    reader = tube.start("consume", "demo", "--tail", "--from", "earliest", "--master", ready["master"])
    assert reader.stdout is not None
    assert reader.stderr is not None
    assert tube("produce", "demo", "one").returncode == ExitCode.DONE
    assert reader.stdout.readline() == b"one\n"
    dev.kill()
    dev.wait()
    assert reader.stderr.readline() == f"no Master responds at {ready['master']}; retrying\n".encode()
    tube.dev("--set", f"master.listen={ready['master']}", "--set", f"broker.listen={ready['broker']}")
    assert reader.stderr.readline() == f"Master at {ready['master']} responds again\n".encode()
    assert tube("produce", "demo", "two").returncode == ExitCode.DONE
    assert reader.stdout.readline() == b"two\n"


def test_a_member_that_is_terminated_leaves_its_group(
    tube: CommandLine, cluster: ThreadedCluster, at: tuple[str, str]
) -> None:
    process = tube.start("consume", "t", "--group", "g", "--from", "earliest", *at)
    assert process.stdout is not None
    assert tube("produce", "t", "fresh", *at).returncode == ExitCode.DONE
    assert process.stdout.readline() == b"fresh\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == ExitCode.INTERRUPTED
    with urllib.request.urlopen(f"{cluster.http}/api/v1/health", timeout=60) as health:
        assert json.load(health)["groups_with_members"] == 0
    assert process.stderr is not None
    assert b"Traceback" not in process.stderr.read()


def test_a_reader_that_has_enough_ends_it(tube: CommandLine, at: tuple[str, str]) -> None:
    tube("produce", "t", *at, stdin=b"x" * 100 + b"\n" + b"".join(b"%0100d\n" % number for number in range(20_000)))
    process = tube.start("consume", "t", *at)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == ExitCode.INTERRUPTED
    assert process.stderr is not None
    assert process.stderr.read() == b""


@pytest.mark.parametrize("output", [(), ("-o", "json")])
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("produce", "missing", "x"), ExitCode.NOT_FOUND, "pytubemq topic create missing"),
        (("consume", "missing"), ExitCode.NOT_FOUND, "pytubemq topic create missing"),
        (("produce", "no such", "x"), ExitCode.USAGE, "not a topic name"),
        (("produce", "t", "-a", "novalue", "x"), ExitCode.USAGE, "K=V"),
        (("produce", "t", "-f", "nofile"), ExitCode.USAGE, "nofile"),
        (("consume", "t", "-f", "%q"), ExitCode.USAGE, "%q"),
    ],
)
def test_errors_name_the_thing_and_the_remedy(
    tube: CommandLine, at: tuple[str, str], output: tuple[str, ...], arguments: tuple[str, ...], code: int, said: str
) -> None:
    found = tube(*arguments, *at, *output)
    assert found.returncode == code, found.stderr
    assert found.stdout == b""
    text = found.stderr.decode()
    assert said in text
    assert "Traceback" not in text
    if output:
        assert set(json.loads(text)) == {"code", "message", "why", "try", "retriable", "exit"}
        assert json.loads(text)["exit"] == code
    else:
        assert text.startswith("error TUBE-")


def test_an_oversize_message_is_refused_by_name(tube: CommandLine, at: tuple[str, str]) -> None:
    found = tube("produce", "t", "--input", "raw", *at, stdin=b"x" * (1_100_000))
    assert found.returncode == ExitCode.FAILED
    assert "TUBE-445" in found.stderr.decode()
    assert "--max-message-size 1100000" in found.stderr.decode()


def test_empty_lines_are_passed_over_and_said(tube: CommandLine, at: tuple[str, str]) -> None:
    found = tube("produce", "t", *at, stdin=b"a\n\n\nb")
    assert found.returncode == ExitCode.DONE
    assert b"2 empty lines skipped" in found.stderr
    assert sorted(tube("consume", "t", *at).stdout.split()) == [b"a", b"b"]


def test_an_unreachable_master(tube: CommandLine) -> None:
    found = tube("consume", "t", "--master", "127.0.0.1:1")
    assert found.returncode == ExitCode.UNREACHABLE
    assert "127.0.0.1:1" in found.stderr.decode()
    assert "try" in found.stderr.decode()


def test_a_new_group_has_its_first_message_at_once(cluster: ThreadedCluster, at: tuple[str, str]) -> None:
    with pytubemq.sync.connect(cluster.master) as connection:
        with connection.producer("t") as producer:
            producer.send(b"waiting for you")
        started_s = time.perf_counter()
        with connection.consumer("new", "t", start=pytubemq.Start.EARLIEST) as consumer:
            batch = next(iter(consumer.batches()))
            print(f"first message after {time.perf_counter() - started_s:.3f} s")  # shown with -s, not judged
            assert [message.body for message in batch] == [b"waiting for you"]
            batch.confirm()


@pytest.mark.parametrize("what", ["produce", "consume", "e2e"])
def test_bench_prints_one_json_object(tube: CommandLine, cluster: ThreadedCluster, what: str) -> None:
    where = ("--master", cluster.master, "--http", cluster.http)
    found = tube("bench", what, "--messages", "300", "--partitions", "2", *where)
    assert found.returncode == ExitCode.DONE, found.stderr
    result = json.loads(found.stdout)
    assert result["bench"] == what
    assert result["messages"] >= 300
    assert result["msgs_per_s"] > 0
    assert b"there is no topic bench: it is created with 2 partitions, and stays\n" in found.stderr
    assert (b"filling bench with 300 messages of 1.0 KiB, which stay there" in found.stderr) is (what == "consume")


def test_each_way_to_produce_tells_its_latency(tube: CommandLine, cluster: ThreadedCluster) -> None:
    where = ("--messages", "300", "--window", "40", "--master", cluster.master, "--http", cluster.http)
    for way, samples in ((("--no-batching",), 30), (("--api", "many"), 30), ((), 30), (("--sync",), 300)):
        found = json.loads(tube("bench", "produce", *way, *where).stdout)["latency_ms"]
        assert found["samples"] == samples, way
        assert 0 < found["p50"] <= found["p90"] <= found["max"]


def test_no_topic_of_somebodys_is_filled_with_noise_unasked(tube: CommandLine, cluster: ThreadedCluster) -> None:
    where = ("--messages", "30", "--master", cluster.master, "--http", cluster.http)
    found = tube("bench", "consume", "--topic", "nonesuch", *where)
    assert found.returncode == ExitCode.NOT_FOUND
    assert b"--fill" in found.stderr
    assert b"nonesuch" not in tube("topic", "list", "--http", cluster.http).stdout
    cluster.create_topic("mine", partitions=1)
    found = tube("bench", "consume", "--topic", "mine", *where)
    assert found.returncode == ExitCode.BAD_CONFIG
    assert b"the topic 'mine' has 0 of 30 messages to read" in found.stderr
    assert tube("consume", "mine", "--master", cluster.master).stdout == b""
    filled = tube("bench", "consume", "--topic", "mine", "--fill", *where)
    assert json.loads(filled.stdout)["messages"] >= 30


def test_lines_are_sent_as_they_come_and_ctrl_c_ends_it(tube: CommandLine, at: tuple[str, str]) -> None:
    follower = tube.start("consume", "t", "--tail", "--from", "earliest", *at)
    producer = tube.start("produce", "t", *at, stdin=subprocess.PIPE)
    assert producer.stdin is not None
    assert follower.stdout is not None
    for word in (b"first\n", b"second\n"):
        producer.stdin.write(word)
        producer.stdin.flush()
        assert follower.stdout.readline() == word
    producer.send_signal(signal.SIGINT)  # while it waits for another line
    assert producer.wait(timeout=60) == ExitCode.INTERRUPTED
    assert producer.stderr is not None
    assert producer.stderr.read() == b"interrupted; sent 2 to t before that\n"


def test_a_bad_line_tells_how_many_were_sent_before_it(tube: CommandLine, at: tuple[str, str]) -> None:
    follower = tube.start("consume", "t", "--tail", "--from", "earliest", *at)
    process = tube.start("produce", "t", "--input", "json", *at, stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert follower.stdout is not None
    process.stdin.write(b'{"body": "a"}\n{"body": "b"}\n')
    process.stdin.flush()
    assert sorted(follower.stdout.readline() for _ in range(2)) == [b"a\n", b"b\n"]
    _, said = process.communicate(b'{"bdy": "c"}\n', timeout=60)
    assert process.returncode == ExitCode.FAILED
    assert b"line 3 has no body; it has bdy, did you mean body?" in said
    assert b"sent 2 to t before that" in said
    found = tube("produce", "t", "--input", "json", "-o", "json", *at, stdin=b"[]")
    assert json.loads(found.stderr)["message"].splitlines()[1] == "sent 0 to t before that"


def test_from_latest_ends_at_once_and_says_what_waits(tube: CommandLine, at: tuple[str, str]) -> None:
    tube("produce", "t", "old", *at)
    found = tube("consume", "t", "--from", "latest", *at)
    assert (found.returncode, found.stdout) == (ExitCode.DONE, b"")
    assert b"--tail" in found.stderr


def test_an_address_of_something_else_is_told_apart(tube: CommandLine, cluster: ThreadedCluster) -> None:
    said = {}
    for name, address in (
        ("broker", cluster.brokers[1]),
        ("http", cluster.http.removeprefix("http://")),
        ("url", f"http://{cluster.master}"),
    ):
        found = tube("consume", "t", "--master", address)
        assert found.returncode in (ExitCode.USAGE if name == "url" else ExitCode.FAILED, ExitCode.UNREACHABLE)
        said[name] = found.stderr.decode()
        assert "  try   " in said[name]
    assert "is not a Master (it is probably a Broker)" in said["broker"]
    assert "8715" in said["broker"]
    assert "JSON API?" in said["http"]
    assert "without http://" in said["url"]


def test_a_member_whose_topic_was_deleted_ends_with_an_error(tube: CommandLine) -> None:
    tube.dev()
    assert tube("topic", "create", "gone").returncode == ExitCode.DONE
    assert tube("produce", "gone", "hi").returncode == ExitCode.DONE
    member = tube.start("consume", "gone", "--group", "gg", "--idle", "4")
    assert member.stdout is not None
    assert member.stdout.readline() == b"hi\n"
    assert tube("topic", "delete", "gone", "--yes").returncode == ExitCode.DONE
    _, said = member.communicate(timeout=60)
    assert member.returncode == ExitCode.NOT_FOUND, said
    assert b"topic gone is gone: it was deleted" in said


def test_a_member_that_waits_says_that_its_topic_was_deleted_and_goes_on_when_it_comes_back(tube: CommandLine) -> None:
    tube.dev()
    assert tube("topic", "create", "gone").returncode == ExitCode.DONE
    assert tube("produce", "gone", "hi").returncode == ExitCode.DONE
    member = tube.start("consume", "gone", "--group", "gg")
    assert member.stdout is not None
    assert member.stderr is not None
    assert member.stdout.readline() == b"hi\n"
    assert tube("topic", "delete", "gone", "--yes").returncode == ExitCode.DONE
    while b"topic gone is gone: it was deleted" not in (line := member.stderr.readline()):
        assert line, "the member ended"
    assert b"waiting in case it is created again" in line
    assert tube("topic", "create", "gone").returncode == ExitCode.DONE
    assert tube("produce", "gone", "again").returncode == ExitCode.DONE
    assert member.stdout.readline() == b"again\n"


def test_a_reset_of_one_partition_to_a_wrong_offset_gets_advice_about_that_partition(tube: CommandLine) -> None:
    tube.dev()
    assert tube("produce", "demo", "hi").returncode == ExitCode.DONE
    reset = ["group", "reset", "g", "--topic", "demo", "--to", "offset:14100", "--dry-run"]
    one, all_of_them = tube(*reset, "--partition", "1:0"), tube(*reset)
    assert b"nothing was moved" in one.stderr
    assert b"every partition" not in one.stderr
    assert b"a target that every partition has" in all_of_them.stderr
    odd = tube(*reset[:-2], "offset:29", "--dry-run")
    assert odd.stderr.count(b"offset 29 is not ") == 1
    assert b"; 3 more partitions refuse it as well\n" in odd.stderr
