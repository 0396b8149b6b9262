"""What the documentation takes from the code, file by file; `scripts/docs/write` writes it.

The invariant: a file is a function of the code and of the file itself, so writing twice changes nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pytubemq.wire.serialization.descriptors import FILES
from scripts.docs import (
    cli_permissions,
    decode_formats,
    fields,
    http_permissions,
    metrics,
    pipeline,
    proto,
    rpc_permissions,
    spark_sink,
    spark_source,
    webapi,
)
from scripts.docs.markdown import put
from tests.interop import features

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

ROOT = Path(__file__).parents[2]
TABLES: Mapping[str, Callable[[], Mapping[str, str]]] = {
    "docs/design/fields.md": fields.tables,
    "docs/reference/cli-permissions.md": cli_permissions.tables,
    "docs/reference/decode-formats.md": decode_formats.tables,
    "docs/reference/http-permissions.md": http_permissions.tables,
    "docs/reference/metrics.md": metrics.tables,
    "docs/reference/pipeline-file.md": pipeline.file_tables,
    "docs/reference/pipeline-guarantees.md": pipeline.guarantee_tables,
    "docs/reference/rpc-permissions.md": rpc_permissions.tables,
    "docs/reference/spark-sink.md": spark_sink.tables,
    "docs/reference/spark-source.md": spark_source.tables,
    "docs/reference/webapi.md": webapi.tables,
}
"""Pages whose tables are written; the text around them is not."""


def written() -> Iterator[tuple[Path, str]]:
    """Yield each file with the text that it should have."""
    for name, tables in TABLES.items():
        page = ROOT / name
        yield page, put(page.read_text("utf-8"), tables())
    yield features.PAGE, features.page(features.load_features(), features.load_results())
    for name in FILES:
        yield ROOT / "proto" / name, proto.render(name)


def main() -> int:
    """Do what the arguments say; returns the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/docs/write", description="Write what the docs take from the code.")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--results", type=Path, metavar="FILE", help="what a whole interop run wrote")
    ways.add_argument("--part", type=Path, metavar="FILE", help="what an interop run of some cells wrote")
    ways.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file would change")
    given = parser.parse_args()
    try:
        if new := given.results or given.part:
            _keep_results(new, whole=new == given.results)
        changed = [(path, text) for path, text in written() if not path.exists() or path.read_text("utf-8") != text]
    except (OSError, ValueError) as error:
        print(f"scripts/docs/write: {error}", file=sys.stderr)
        return 1
    for path, text in changed:
        print(f"{path.relative_to(ROOT)} {'is not up to date: run scripts/docs/write' if given.check else 'written'}")
        if not given.check:
            path.write_text(text, "utf-8")
    return 1 if given.check and changed else 0


def _keep_results(run: Path, *, whole: bool) -> None:
    day = datetime.fromtimestamp(run.stat().st_mtime, UTC).date().isoformat()
    before = None if whole else features.load_results()
    results = features.results_of(json.loads(run.read_text("utf-8")), date=day, before=before)
    features.RESULTS.write_text(features.dump_results(results), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
