#!/usr/bin/env python3
"""Write docs/reference/features.md from tests/interop/features.toml and the results of an interop run.

scripts/write_features_page.py                      with the results kept in docs/reference/interop-results.json
scripts/write_features_page.py --results run.json   keep those of another whole run (--interop-matrix) first
scripts/write_features_page.py --part part.json     keep those of a run of some cells, and what there was of the others
scripts/write_features_page.py --check              write nothing; exit 1 if the page is not what it would be
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from tests.interop.features import PAGE, RESULTS, dump_results, load_features, load_results, page, results_of


def main() -> int:
    """Do what the arguments say; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, metavar="FILE", help="what a whole run wrote with --interop-matrix")
    parser.add_argument("--part", type=Path, metavar="FILE", help="what a run of some cells wrote")
    parser.add_argument("--check", action="store_true", help="only look whether the page is as it should be")
    given = parser.parse_args()
    new = given.results or given.part
    if bool(given.check) + bool(given.results) + bool(given.part) > 1:
        parser.error("--results, --part and --check do not go together")
    try:
        features = load_features()
        if new:
            day = datetime.fromtimestamp(new.stat().st_mtime, UTC).date().isoformat()
            before = load_results() if given.part else None
            results = results_of(json.loads(new.read_text("utf-8")), date=day, before=before)
            RESULTS.write_text(dump_results(results), "utf-8")
        text = page(features, load_results())
    except (OSError, ValueError) as error:
        print(f"write_features_page: {error}", file=sys.stderr)
        return 1
    if not given.check:
        PAGE.write_text(text, "utf-8")
    elif PAGE.read_text("utf-8") != text:
        print(f"{PAGE.name} is not up to date: run scripts/write_features_page.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
