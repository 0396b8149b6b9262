"""Run a pipeline file where there is no command line of ours: `python -m pytubemq.pipelines FILE [--once]`.

`spark-submit` takes the path of this file in place of a script; its own --master, --packages and --conf then hold, and
the file's `spark` adds what is left open.
Each event is one line of JSON on standard output.
"""

from __future__ import annotations

import argparse
import json
import sys

from pytubemq.errors import TubeError


def main(arguments: list[str] | None = None) -> int:
    """Run the file that the arguments name; returns the exit code, as `pytubemq pipeline run` would."""
    parser = argparse.ArgumentParser(prog="python -m pytubemq.pipelines", description="Run a pipeline file.")
    parser.add_argument("file", help="the pipeline, in YAML or TOML")
    parser.add_argument("--once", action="store_true", help="take what is there now, then end")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="give a ${var:NAME} its value")
    given = parser.parse_args(arguments)
    from pytubemq.pipelines import event_as_json, open_pipeline, run_pipeline

    try:
        variables = dict(pair.split("=", 1) for pair in given.set)
    except ValueError:
        parser.error("--set takes NAME=VALUE")
    try:
        pipeline = open_pipeline(given.file, variables=variables)
        run_pipeline(
            pipeline,
            once=given.once,
            on_event=lambda event: print(json.dumps(event_as_json(event), default=str), flush=True),
        )
    except TubeError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
