"""A group that gets nothing, and Brokers out of use, as the command line shows them: each hint leads to the reason."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pytubemq.errors import ExitCode

if TYPE_CHECKING:
    from .conftest import CommandLine

pytestmark = pytest.mark.scenario


def change(http: str, method: str, **params: str) -> None:
    form = {"method": method, "createUser": "me", "modifyUser": "me", **params}
    found = httpx.post(f"{http}/webapi.htm", data=form).json()
    assert found["result"], found
    assert all(row["success"] for row in found["data"]), found


def test_a_blocked_group_ends_with_an_error_and_the_command_that_it_names_says_why(tube: CommandLine) -> None:
    _, where = tube.dev()
    assert tube("produce", "demo", "hello").returncode == ExitCode.DONE
    change(where["http"], "admin_add_black_consumergroup_info", topicName="demo", groupName="reports")
    blocked = tube("consume", "demo", "--group", "reports", "--idle", "0.5")
    said = blocked.stderr.decode()
    assert (blocked.returncode, blocked.stdout) == (ExitCode.REFUSED, b""), said
    assert "demo is closed for group reports: an administrator has switched off consuming it" in said
    assert "pytubemq group show reports --topic demo" in said
    for command in (("group", "show", "reports", "--topic", "demo"), ("group", "show", "reports")):
        shown = tube(*command, "-o", "json")
        assert shown.returncode == ExitCode.DONE, "also when no consumer of it is there any more"
        found = json.loads(shown.stdout)
        assert (found["state"], found["members"]) == ("absent", 0)
        assert "demo is closed for it: an administrator has switched off consuming it" in found["why"]
    change(where["http"], "admin_delete_black_consumergroup_info", topicName="demo", groupName="reports")
    assert tube("consume", "demo", "--group", "reports", "-n", "1").stdout == b"hello\n"
    shown = tube("group", "show", "reports", "--topic", "demo", "-o", "json")
    assert json.loads(shown.stdout)["why"] == "no consumer of it is registered"


def test_a_group_that_nobody_knows_is_told_apart_from_one_that_gets_nothing(tube: CommandLine) -> None:
    tube.dev()
    unknown = tube("group", "show", "nobody")
    assert unknown.returncode == ExitCode.NOT_FOUND
    assert b"no record restricts it" in unknown.stderr
    unknown = tube("group", "show", "nobody", "--topic", "demo")
    assert unknown.returncode == ExitCode.NOT_FOUND, "the same with a topic that lets every group in"
    assert b"no record keeps it from consuming demo" in unknown.stderr
    assert tube("group", "show", "nobody", "--topic", "nosuch").returncode == ExitCode.NOT_FOUND
    assert tube("group", "show", "nobody", "--topic", "no such").returncode == ExitCode.USAGE


def test_a_group_shows_all_topics_that_it_is_kept_out_of_and_with_a_topic_only_its_rows(tube: CommandLine) -> None:
    _, where = tube.dev()
    assert tube("topic", "create", "secret").returncode == ExitCode.DONE
    assert tube("topic", "create", "other", "--partitions", "1").returncode == ExitCode.DONE
    for topic in ("demo", "other"):
        assert tube("produce", topic, "hello").returncode == ExitCode.DONE
        assert tube("consume", topic, "--group", "g", "-n", "1").returncode == ExitCode.DONE
    change(where["http"], "admin_add_black_consumergroup_info", topicName="secret", groupName="g")

    def show(*arguments: str) -> dict[str, Any]:
        shown = tube("group", "show", "g", *arguments, "-o", "json")
        assert shown.returncode == ExitCode.DONE, shown.stderr
        found: dict[str, Any] = json.loads(shown.stdout)
        return found

    found = show()
    assert [one["topic"] for one in found["closed"]] == ["secret"]
    assert {line["topic"] for line in found["lag"]} == {"demo", "other"}
    found = show("--topic", "other")
    assert (found["closed"], [line["topic"] for line in found["lag"]]) == ([], ["other"])
    assert (found["topics"], found["lag_messages"]) == (["demo", "other"], 0)
    found = show("--topic", "secret")
    assert ([one["topic"] for one in found["closed"]], found["lag"]) == (["secret"], [])


def test_a_broker_that_is_offline_reads_so_wherever_it_is_listed(tube: CommandLine) -> None:
    _, where = tube.dev()
    assert tube("cluster", "health").returncode == ExitCode.DONE
    change(where["http"], "admin_offline_broker_configure", brokerId="1")
    health = tube("cluster", "health", "-o", "json")
    found = json.loads(health.stdout)
    assert (health.returncode, found["status"], found["brokers_online"]) == (ExitCode.UNHEALTHY, "degraded", 0)
    assert [reason["why"] for reason in found["reasons"]] == [
        "offline: an operator has set it so, and clients cannot reach demo there"
    ]
    (broker,) = json.loads(tube("cluster", "info", "-o", "json").stdout)["brokers"]
    assert (broker["state"], broker["why"]) == (
        "offline", "an operator has set it so, and no client uses it; it runs"
    )  # fmt: skip
    listed = tube("topic", "list")
    assert b"broker 1 is offline: demo" in listed.stderr
    failed = tube("produce", "demo", "x", "--timeout", "1")
    assert failed.returncode == ExitCode.REFUSED
    assert b"pytubemq topic show demo" in failed.stderr
    (place,) = json.loads(tube("topic", "show", "demo", "-o", "json").stdout)["places"]
    assert (place["ready"], place["publish"], place["subscribe"]) == (True, False, False)
    assert place["why"].startswith("broker 1 is offline: an operator has set it so")
    blocked = tube("consume", "demo", "--group", "other", "--idle", "0.5")
    assert blocked.returncode == ExitCode.REFUSED
    assert b"no Broker that has it lets consumers read now" in blocked.stderr
    change(where["http"], "admin_online_broker_configure", brokerId="1")
    assert tube("cluster", "health", "--wait", "30").returncode == ExitCode.DONE


@pytest.mark.parametrize(
    ("status", "publish", "subscribe"),
    [({"acceptPublish": "false"}, False, True), ({"acceptSubscribe": "false"}, True, False)],
)
def test_a_topic_says_what_keeps_its_clients_off(
    tube: CommandLine, status: dict[str, str], publish: bool, subscribe: bool
) -> None:
    _, where = tube.dev()
    change(where["http"], "admin_set_broker_read_or_write", brokerId="1", **status)
    (place,) = json.loads(tube("topic", "show", "demo", "-o", "json").stdout)["places"]
    assert (place["publish"], place["subscribe"]) == (publish, subscribe)
    assert place["why"] == f"an operator has set broker 1 {'only-read' if subscribe else 'only-write'}"
