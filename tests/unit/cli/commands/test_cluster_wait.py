"""`cluster health --wait`: it ends in time, with the exit code of what it saw last, and says what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.cli.commands.cluster_wait import await_healthy
from pytubemq.cli.options import GlobalOptions
from pytubemq.errors import ExitCode, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.cli.conftest import Ran
    from tests.unit.cli.fake_api import FakeApi

HEALTHY = {"status": "healthy", "reasons": []}
AWAY = {"status": "degraded", "reasons": [{"thing": "broker 1", "why": "offline: not heard of", "hint": "start it"}]}
NONE = {"status": "degraded", "reasons": [{"thing": "brokers", "why": "no Broker has ever registered", "hint": "h"}]}


class Clock:
    """Time that passes with each request and each sleep."""

    def __init__(self, *answers: dict[str, Any] | None) -> None:
        self.now_s = 0.0
        self.allowed_s: list[float] = []
        self._answers = list(answers)

    def ask(self, timeout_s: float) -> dict[str, Any]:
        self.allowed_s.append(timeout_s)
        self.now_s += 0.1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is None:
            raise UnreachableError("the JSON API cannot be reached")
        return answer

    def sleep(self, pause_s: float) -> None:
        self.now_s += pause_s

    def run(self, wait_s: float) -> dict[str, Any]:
        return await_healthy(
            self.ask, wait_s=wait_s, options=GlobalOptions(), now_s=lambda: self.now_s, sleep=self.sleep
        )


def test_it_returns_as_soon_as_the_cluster_is_healthy(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock(None, None, NONE, AWAY, AWAY, HEALTHY)
    assert clock.run(30) == HEALTHY
    assert clock.now_s < 30
    assert capsys.readouterr().err.splitlines() == [
        "waiting, up to 30 s (--wait): the JSON API cannot be reached",
        "waiting, up to 30 s (--wait): brokers: no Broker has ever registered",
        "waiting, up to 30 s (--wait): broker 1: offline: not heard of",
    ]


def test_it_ends_in_time_and_says_what_is_missing_still(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock(AWAY)
    assert clock.run(3) == AWAY
    assert 3 <= clock.now_s < 4
    assert max(clock.allowed_s) <= 3
    assert capsys.readouterr().err.splitlines()[-1] == (
        "not healthy after 3 s (--wait): broker 1: offline: not heard of"
    )


def test_where_nothing_ever_answers_that_is_the_error() -> None:
    with pytest.raises(UnreachableError):
        Clock(None).run(1)


@pytest.mark.parametrize(("answer", "code"), [((200, HEALTHY), ExitCode.DONE), ((503, AWAY), ExitCode.UNHEALTHY)])
def test_the_exit_code_is_that_of_the_last_answer(
    tube: Callable[..., Ran], api: FakeApi, answer: tuple[int, Any], code: ExitCode
) -> None:
    api.answers["/api/v1/health"] = answer
    assert tube("cluster", "health", "--wait", "0.3", "--http", api.url).code == code


def test_without_a_number_it_waits_a_default_time(tube: Callable[..., Ran], api: FakeApi) -> None:
    assert tube("cluster", "health", "--wait", "--http", api.url).code == ExitCode.DONE


def test_where_nobody_listens_it_ends_as_other_commands_do(tube: Callable[..., Ran], api: FakeApi) -> None:
    api.close()
    ran = tube("cluster", "health", "--wait", "0.3", "--http", api.url)
    assert (ran.code, "not healthy after 0.3 s" in ran.err) == (ExitCode.UNREACHABLE, True)


@pytest.mark.parametrize("bad", ["0", "-1", "soon"])
def test_a_bad_wait_is_a_usage_error(tube: Callable[..., Ran], bad: str) -> None:
    assert tube("cluster", "health", f"--wait={bad}").code == ExitCode.USAGE
