"""What uv is told of this machine's pip."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.harness.processes import run
from scripts.pip_settings import translate, uv_environment

SCRIPT = Path(__file__).parents[3] / "scripts" / "pip_settings.py"


def test_index_links_and_certificate_are_translated(tmp_path: Path) -> None:
    listed = "\n".join(
        [
            ":env:.cert='/env.crt'",
            f":env:.find-links='{tmp_path}\\n/nowhere/at/all https://links.example/simple'",
            "global.cert='/global.crt'",
            "global.index-url='https://index.example/simple'",
            "global.timeout='60'",
            "install.extra-index-url='https://more.example/simple'",
            "download.index-url='https://other.example/simple'",
        ]
    )
    assert translate(listed) == {
        "SSL_CERT_FILE": "/env.crt",
        "UV_DEFAULT_INDEX": "https://index.example/simple",
        "UV_INDEX": "https://more.example/simple",
        "UV_FIND_LINKS": f"{tmp_path},https://links.example/simple",
    }
    assert translate("global.no-index='true'") == {"UV_NO_INDEX": "1"}
    assert translate("") == {}


@pytest.mark.process
def test_what_is_set_already_stays() -> None:
    plain = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "PIP_CONFIG_FILE": "/dev/null", "PIP_CERT": "/pip's.crt"}
    assert uv_environment(plain) == {"SSL_CERT_FILE": "/pip's.crt"}
    assert uv_environment({**plain, "SSL_CERT_FILE": "/mine.crt"}) == {}
    shown = subprocess.run([sys.executable, str(SCRIPT)], env=plain, capture_output=True, text=True, check=True)
    echo = subprocess.run(["bash", "-c", f'{shown.stdout}\necho "$SSL_CERT_FILE"'], capture_output=True, check=True)
    assert echo.stdout == b"/pip's.crt\n"


@pytest.mark.anyio
async def test_the_install_of_a_client_is_given_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from bench.peers import kafka

    calls: list[tuple[list[str], dict[str, str] | None]] = []

    async def record(command: list[str], *, within_s: float, more: dict[str, str] | None = None) -> str:
        calls.append((command, more))
        return ""

    monkeypatch.setattr(kafka, "run", record)
    monkeypatch.setattr(kafka, "uv_environment", lambda: {"UV_INDEX": "https://index.example"})
    await kafka._install(tmp_path)
    (installing,) = [(command, more) for command, more in calls if "install" in command]
    assert installing[1] == {"UV_INDEX": "https://index.example"}


@pytest.mark.process
@pytest.mark.anyio
async def test_a_process_is_given_more_environment() -> None:
    said = await run(["bash", "-c", 'echo "$MORE $PATH"'], within_s=20, more={"MORE": "yes"})
    assert said.split()[0] == "yes"
    assert os.environ["PATH"] in said
