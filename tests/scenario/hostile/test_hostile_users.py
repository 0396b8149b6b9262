"""Bad HTTP requests of every kind of caller to a Master and a Broker where authentication is enforced.

They go to every call of the JSON API, `/webapi.htm`, `/master.htm` and `/broker.htm`. A failure names the seed and what
was sent; with `--soak` there are ten times as many cases, with a new seed.
"""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import pytest

from pytubemq.admin.serving.http import HttpServer
from pytubemq.model.ids import Address
from pytubemq.testing.hostile.http_cases import broker_calls, master_calls
from pytubemq.testing.hostile.http_client import HostileHttpClient
from pytubemq.testing.hostile.values import Scene
from tests.scenario.hostile.callers import CALLERS, TOPICS, own_token, token_of
from tests.scenario.security.secured import cluster

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.scenario, pytest.mark.anyio]

SEED: Final = 20260131
CASES: Final = 400
SOAK_TIMES: Final = 10


@pytest.mark.parametrize("caller", CALLERS)
async def test_no_caller_brings_a_server_to_an_error(
    tmp_path: Path, soak: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, caller: str
) -> None:
    seed, cases = (random.SystemRandom().randrange(1 << 32), SOAK_TIMES * CASES) if soak else (SEED, CASES)
    defaults = HttpServer.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "request_timeout_s", 0.5)  # some cases are cut requests
    async with cluster(tmp_path, token=own_token(caller)) as node:
        assert node.master is not None
        token, places = await token_of(node, caller), node.endpoints
        scene = Scene(topic="orders", partitions=2, group="billing", broker=str(places.broker), token=token)
        for http, calls in ((places.http, master_calls()), (places.broker_http, broker_calls())):
            hostile = HostileHttpClient(Address.parse(urlsplit(str(http)).netloc), seed, calls, scene)
            await hostile.run(cases)
            assert not hostile.problems, "\n".join([f"seed {seed}", *hostile.problems[:12]])
            assert hostile.answers[200] > 0, hostile.answers
        if caller != "admin":
            assert {topic.name for topic in await node.master.topics()} == TOPICS
    ours = [record for record in caplog.records if record.name.startswith("pytubemq")]
    assert not [record.getMessage() for record in ours if record.levelno >= logging.ERROR], f"seed {seed}"
