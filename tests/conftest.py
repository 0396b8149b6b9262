"""What every test may use."""

from __future__ import annotations

import signal

import pytest

from tests.properties import choose_profile

# A shell that starts this in the background makes it ignore Ctrl-C, and every process it starts; the tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run the long versions of the crash tests")
    parser.addoption("--interop-matrix", metavar="FILE", help="write the results of the interop tests there, as JSON")


@pytest.hookimpl(tryfirst=True)  # before Hypothesis's own plugin, which reads the seed
def pytest_configure(config: pytest.Config) -> None:
    choose_profile(config)


@pytest.fixture(scope="session")
def soak(request: pytest.FixtureRequest) -> bool:
    """Whether the long versions of the crash tests were asked for."""
    return bool(request.config.getoption("--soak"))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests (`pytest.mark.anyio`) run on asyncio."""
    return "asyncio"
