"""The JSON API against its own description: Schemathesis makes requests of it, sound and unsound, for every caller.

No response is 5xx, and each is as described: its status, its content type, its schema, the methods that `Allow` names.
A failure prints the seed and the request as a command. With `--soak` there are ten times as many examples, with a new
seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import sys
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from pytubemq.admin.openapi import describe
from pytubemq.admin.serving.http import HttpServer
from pytubemq.master.registry.broker_waits import BrokerWaits
from pytubemq.model.ids import Address
from tests.scenario.hostile.callers import SERVERS_TOKEN, TOPICS, own_token, token_of
from tests.scenario.security.secured import cluster

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request

pytestmark = [pytest.mark.scenario, pytest.mark.anyio, pytest.mark.process]

SEED: Final = 20260131
SOAK_TIMES: Final = 10
EXAMPLES: Final = 5
"""For each operation."""
ALL_PHASES: Final = "coverage,fuzzing,stateful"
"""The first goes through the schema of each operation, the last takes values from responses."""
CHECKS: Final = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance", "unsupported_method", "allow_header_conformance", "use_after_free",
)  # fmt: skip
UNAVAILABLE: Final = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 503]
"""
"""An administrator can also remove the user of the Broker, without which some requests cannot be served."""
MOST_PARTITIONS: Final = 20
OPERATIONS: Final = sum(len(verbs) for verbs in describe("")["paths"].values())


async def drive(
    http: str, report: Path, *, soak: bool, token: str = "", phases: str = ALL_PHASES, only: str = ""
) -> tuple[int, str, Any]:
    """Run Schemathesis against the API at `http`; return its exit code, its output and its report."""
    seed, examples = (random.SystemRandom().randrange(1 << 32), SOAK_TIMES * EXAMPLES) if soak else (SEED, EXAMPLES)
    configuration, description = report.with_suffix(".toml"), report.with_suffix(".openapi")
    write(configuration, UNAVAILABLE if token == SERVERS_TOKEN else "")
    write(description, await described(http))
    arguments = [
        "--config-file", str(configuration), "run", str(description), "--url", http, "--no-color",
        "--continue-on-failure", "--request-timeout", "30", "--seed", str(seed), "--max-examples", str(examples),
        "--phases", phases, "--checks", ",".join(CHECKS), "--report", "json", "--report-json-path", str(report),
    ]  # fmt: skip
    arguments += ["--header", f"Authorization: Bearer {token}"] if token else []
    arguments += ["--include-path", only] if only else []
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "schemathesis.cli", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=report.parent,
    )  # fmt: skip
    try:
        output = (await process.communicate())[0].decode()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    assert process.returncode is not None
    return process.returncode, output, read(report)


async def described(http: str) -> str:
    """Return the description that a server gives, with fewer partitions: each change of 10,000 takes seconds."""
    async with httpx.AsyncClient(timeout=30) as client:
        found = (await client.get(f"{http}/api/v1/openapi.json")).json()
    for kind in ("NewTopic", "ChangedTopic"):
        found["components"]["schemas"][kind]["properties"]["partitions"]["maximum"] = MOST_PARTITIONS
    return json.dumps(found)


def write(path: Path, text: str) -> None:
    path.write_text(text)


def read(report: Path) -> Any:
    return json.loads(report.read_text()) if report.exists() else {}


@pytest.mark.parametrize(
    ("mode", "caller", "phases", "least_served"),
    [
        ("off", "nobody", "fuzzing,stateful", 12),
        ("enforced", "admin", "coverage,fuzzing", 18),
        ("enforced", "weak", "fuzzing", 3),
        ("enforced", "nobody", "fuzzing", 1),
    ],
    ids=lambda value: str(value),
)
async def test_every_response_is_as_described(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    soak: bool,
    mode: str,
    caller: str,
    phases: str,
    least_served: int,
) -> None:
    if caller == "admin":  # each change would wait 5 s for the Broker whose user is gone
        monkeypatch.setattr(BrokerWaits, "_timeout_s", lambda _, ids: 1.0 if ids else 0.0)
    async with cluster(tmp_path / "data", mode, token=own_token(caller)) as node:
        assert node.endpoints.http is not None
        assert node.master is not None
        token = await token_of(node, caller)
        code, output, report = await drive(
            node.endpoints.http, tmp_path / "report.json", soak=soak, token=token, phases=ALL_PHASES if soak else phases
        )
        assert code == 0, output
        operations = report["operations"]
        assert (operations["total"], operations["tested"], operations["errored"]) == (OPERATIONS, OPERATIONS, 0), output
        served = {
            name for name, phases in report["valid_rates"].items() if any(one["accepted"] for one in phases.values())
        }
        assert len(served) >= least_served, (sorted(served), output)
        if token != SERVERS_TOKEN and mode != "off":
            assert {topic.name for topic in await node.master.topics()} == TOPICS
    ours = [record for record in caplog.records if record.name.startswith("pytubemq")]
    assert not [record.getMessage() for record in ours if record.levelno >= logging.ERROR]


async def test_what_is_not_as_described_is_found(tmp_path: Path) -> None:
    async def brokers(_: Request) -> JSONResponse:
        return JSONResponse([{"id": "one"}])

    async def description(_: Request) -> JSONResponse:
        return JSONResponse(describe("1"))

    routes = [Route("/api/v1/brokers", brokers), Route("/api/v1/openapi.json", description)]
    server = HttpServer(Starlette(routes=routes), Address("127.0.0.1", 0))
    http = f"http://{await server.start()}"
    code, output, _ = await drive(http, tmp_path / "report.json", soak=False, only="/api/v1/brokers")
    await server.close()
    assert code == 1, output
    assert "Response violates schema" in output
