"""What every test may use."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.fast import FastRun
from tests.support.properties import choose_profile
from tests.support.soaking import parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.postgres import Postgres
    from tests.support.zookeeper.server import ZooKeeper

# A shell that starts this in the background makes it ignore Ctrl-C, and every process it starts; the tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run the long versions of the crash tests")
    parser.addoption(
        "--fast", action="store_true", help="leave out tests that start a process, Spark or a JVM, or are slow"
    )
    parser.addoption("--interop-matrix", metavar="FILE", help="write the results of the interop tests there, as JSON")


@pytest.hookimpl(tryfirst=True)  # before Hypothesis's own plugin, which reads the seed
def pytest_configure(config: pytest.Config) -> None:
    choose_profile(config)
    if config.getoption("--fast"):
        config.pluginmanager.register(FastRun())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "part" in metafunc.fixturenames:
        metafunc.parametrize("part", parts(soak=bool(metafunc.config.getoption("--soak"))), ids=str)


@pytest.fixture(scope="session")
def soak(request: pytest.FixtureRequest) -> bool:
    """Whether the long versions of the crash tests were asked for."""
    return bool(request.config.getoption("--soak"))


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A PostgreSQL server for all tests of this process that take it; each makes databases of its own."""
    from tests.support.postgres import Postgres

    with Postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """A ZooKeeper server for all tests of this process that take it; each has nodes of its own."""
    from tests.support.zookeeper.server import ZooKeeper, missing

    if reason := missing():
        pytest.fail(reason)
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests (`pytest.mark.anyio`) run on asyncio."""
    return "asyncio"


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """A directory in memory if the machine has such: for files that are written often and meet no power cut."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as directory:
        yield Path(directory)
