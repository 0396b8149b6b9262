"""No circle of files: in `src`, no module imports another that imports it back, for types or inside a function either.

Modules that know each other can only be understood, tested and moved together. The import contracts keep rooms apart;
they do not look at a room's files one by one.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pytubemq
from tests.support.import_graph import graph_of

if TYPE_CHECKING:
    from tests.support.import_graph import Graph


def circle_in(graph: Graph) -> list[str]:
    """One circle, from a module back to it; nothing where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_there_is_no_circle_of_files() -> None:
    assert not circle_in(graph_of(Path(pytubemq.__file__).parent))


@pytest.mark.parametrize(
    "back",
    [
        "import package.one",
        "from package.one import value",
        "from package import one",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from package.one import value",
        "def late():\n    from package.one import value",
    ],
)
def test_every_kind_of_import_closes_a_circle(tmp_path: Path, back: str) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "one.py").write_text("from package.two import value")
    (package / "two.py").write_text(back)
    assert set(circle_in(graph_of(package))) == {"package.one", "package.two"}


def test_files_that_import_their_package_and_others_one_way_are_no_circle(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "one.py").write_text("import package\nfrom package import two")
    (package / "two.py").write_text("import json\nfrom package import value")
    assert circle_in(graph_of(package)) == []
