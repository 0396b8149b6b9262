"""The Java system's artifacts: fetched once with Maven, kept outside the repository, our driver compiled beside them.

The invariant: what is used is named by the contents of pom.xml and of the driver's sources, so nothing stale is run;
with a full cache no network is needed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent / "java"
SERVER = "org.apache.inlong:tubemq-server:2.4.0"
LEAST_JARS = 40
INSTALL = "apt-get install openjdk-17-jdk-headless maven   (or openjdk-21-jdk-headless)"


@dataclass(frozen=True, slots=True)
class Java:
    """Class paths of the servers and of the driver, and the `java` to run them with."""

    command: str
    libraries: Path
    driver: Path

    @property
    def server_path(self) -> str:
        return f"{self.libraries}/*"

    @property
    def log_config(self) -> Path:
        return HERE / "log4j2.xml"

    @property
    def driver_path(self) -> str:
        return f"{self.driver}:{self.libraries}/*"


class FetchError(Exception):
    """The Java system cannot be had here; the text says what to install or to look at."""


def fetch() -> Java:
    """Have the artifacts and the compiled driver.

    Raises:
        FetchError: a tool is missing, Maven could not download, or the driver does not compile.
    """
    java = tool("java")
    libraries = cached(f"lib-{digest_of([HERE / 'pom.xml'], SERVER)}", _download)
    sources = sorted(HERE.glob("*.java"))
    driver = cached(
        f"driver-{digest_of([HERE / 'pom.xml', *sources], SERVER)}", lambda into: _compile(into, libraries, sources)
    )
    return Java(java, libraries, driver)


def cache_dir() -> Path:
    """`~/.cache/pytubemq/interop`, or below XDG_CACHE_HOME."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pytubemq" / "interop"


def cached(name: str, make: object) -> Path:
    """The directory of that name, made whole before it gets the name."""
    final = cache_dir() / name
    if final.is_dir():
        return final
    making = final.with_name(f"{name}.{os.getpid()}")
    making.mkdir(parents=True)
    try:
        assert callable(make)
        make(making)
        try:
            making.rename(final)
        except OSError:
            if not final.is_dir():  # another run was quicker
                raise
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return final


def _download(into: Path) -> None:
    maven = [tool("mvn"), "-B", "-q", "-ntp"]
    copy = "dependency:copy-dependencies"
    run_tool([*maven, "-f", str(HERE / "pom.xml"), copy, "-DincludeScope=runtime", f"-DoutputDirectory={into}"], into)
    # In a directory without a pom.xml: the artifact's own parent cannot be resolved.
    run_tool([*maven, "dependency:copy", f"-Dartifact={SERVER}", f"-DoutputDirectory={into}"], into)
    found = len(list(into.glob("*.jar")))
    if found < LEAST_JARS:
        raise FetchError(f"Maven fetched {found} jars only, see {HERE / 'pom.xml'}")


def _compile(into: Path, libraries: Path, sources: list[Path]) -> None:
    run_tool([tool("javac"), "-cp", f"{libraries}/*", "-d", str(into), *map(str, sources)], into)


def run_tool(command: list[str], directory: Path) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise FetchError(f"{Path(command[0]).name} failed:\n{(done.stdout + done.stderr).strip()[-2000:]}")


def tool(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    at_home = shutil.which(f"{home}/bin/{name}") if home and name != "mvn" else None
    found = at_home or shutil.which(name)
    if found is None:
        raise FetchError(f"{name} is missing; install it as root:  {INSTALL}")
    return found


def digest_of(files: list[Path], *more: str) -> str:
    sha = hashlib.sha256("\n".join(more).encode())
    for file in files:
        sha.update(file.read_bytes())
    return sha.hexdigest()[:16]


if __name__ == "__main__":
    try:
        print(fetch())
    except FetchError as error:
        sys.exit(f"fetch: {error}")
