"""What the tests put beside Spark, fetched once by Maven and pip and kept below `~/.cache/pytubemq/interop`.

The invariant: a directory is named by the contents of the file that lists what is in it, and has its name only when it
is whole; a jar that the pyspark wheel has, in whatever version, is left out.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pyspark

from tests.interop.fetch import FetchError, cached, digest_of, run_tool, tool

HERE = Path(__file__).parent / "jars"
PACKAGES = HERE / "pipelines-requirements.txt"
SETS = tuple(sorted(path.stem for path in HERE.glob("*.xml")))
"""delta, iceberg, inlong (the official class, for vectors), kafka (Spark's source and sink), postgres (JDBC)."""


def jars(name: str) -> list[Path]:
    """The jars of a set that Spark lacks.

    Raises:
        FetchError: Maven is missing or could not download.
    """
    have = {_artifact(path) for path in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    return [path for path in sorted(directory(name).glob("*.jar")) if _artifact(path) not in have]


def directory(name: str) -> Path:
    """Where all jars of a set lie, those that Spark has too: for programs that run without Spark."""
    if name not in SETS:
        raise FetchError(f"there is no set of jars {name!r}; there are {', '.join(SETS)}")
    pom = HERE / f"{name}.xml"
    return cached(f"spark-{name}-{digest_of([pom])}", lambda into: _download(pom, into))


def pipelines_packages() -> Path:
    """What `spark-pipelines` needs and this project does not: a directory for the path of its process alone.

    Raises:
        FetchError: pip could not download.
    """

    def install(into: Path) -> None:
        run_tool([sys.executable, "-m", "pip", "install", "-q", "--target", str(into), "-r", str(PACKAGES)], into)

    return cached(f"spark-pipelines-{digest_of([PACKAGES])}", install)


def _download(pom: Path, into: Path) -> None:
    copy = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={into}"]
    run_tool([tool("mvn"), "-B", "-q", "-ntp", "-f", str(pom), *copy], into)
    if not list(into.glob("*.jar")):
        raise FetchError(f"Maven fetched nothing, see {pom}")


def _artifact(path: Path) -> str:
    return re.sub(r"-\d.*$", "", path.stem)


if __name__ == "__main__":
    for one in SETS:
        print(one, *jars(one), sep="\n  ")
    print(pipelines_packages())
