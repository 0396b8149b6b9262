"""What is said of a server with `insecure = true`."""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING

import pytest

from pytubemq.server import exposure as module
from pytubemq.server.exposure import ExposureReminder, exposure
from pytubemq.server.sources import load_settings
from tests.support.waiting import until

if TYPE_CHECKING:
    from pytubemq.server.settings import Settings

pytestmark = pytest.mark.anyio
ENFORCED = {"security.authentication": "enforced"}
TLS = {"tls.plain": False, "tls.cert": "c.pem", "tls.ca": "ca.pem", "http.tls_cert": "c.pem"}
CALLERS = "anyone who can reach this server may use it"
READERS = "who can read the network reads"


def settings(**more: object) -> Settings:
    return load_settings(None, environ={}, flags={"insecure": True, **more})


@pytest.mark.parametrize(
    ("given", "found", "not_found"),
    [
        ({}, ('"off" asks nobody', CALLERS, "over the protocol and HTTP"), ("guessed", "remove")),
        ({"security.authentication": "permissive"}, ('"permissive" refuses nobody', CALLERS), ("asks nobody",)),
        (ENFORCED, (READERS,), (CALLERS,)),
        (ENFORCED | TLS, ("no other setting needs it, so remove it",), (CALLERS, READERS)),
        (TLS, (CALLERS,), (READERS, "remove")),
        ({**ENFORCED, **TLS, "http.tls_cert": ""}, ("passes over HTTP, as",), (CALLERS, "protocol")),
        ({**ENFORCED, **TLS, "http.token": "abc"}, ("http.token can be guessed",), (CALLERS, READERS, "abc", "remove")),
        ({**ENFORCED, **TLS, "http.token": secrets.token_urlsafe()}, ("remove it",), ("guessed",)),
    ],
)
def test_it_names_what_is_open_and_nothing_else(
    given: dict[str, object], found: tuple[str, ...], not_found: tuple[str, ...]
) -> None:
    text = exposure(settings(**given))
    assert text.startswith("insecure = true: ")
    assert [part for part in found if part not in text] == []
    assert [part for part in not_found if part in text] == []


def test_without_the_setting_nothing_is_said() -> None:
    assert exposure(load_settings(None, environ={}, flags={})) == ""


async def test_the_log_says_so_at_the_start_and_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert module.REMINDER_PERIOD_S == 3_600, "an hour"
    monkeypatch.setattr(module, "REMINDER_PERIOD_S", 0.0)
    reminder = ExposureReminder(settings())
    with caplog.at_level(logging.WARNING):
        reminder.start()
        await until(lambda: caplog.text.count("insecure = true") >= 3)
        await reminder.close()
        await reminder.close()
        said = len(caplog.records)
        for _ in range(5):
            await asyncio.sleep(0)
    assert len(caplog.records) == said


async def test_a_server_that_is_not_open_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    reminder = ExposureReminder(load_settings(None, environ={}, flags={}))
    reminder.start()
    await reminder.close()
    assert caplog.text == ""
