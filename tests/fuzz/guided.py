"""Fuzzing that follows the branches it reaches, with Atheris: `pip install atheris`, which no other part needs.

    python -m tests.fuzz.guided TARGET [options of libFuzzer, such as -max_total_time=60]

Inputs that reach something new are added to the target's corpus; one that fails is written as `crash-...` into the
working directory and printed with its traceback. Afterwards `-merge=1 NEW OLD` of libFuzzer makes a corpus small.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from tests.fuzz.corpus import DIRECTORY


def main() -> None:
    """Run one target until libFuzzer ends."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["pytubemq"]):
        from tests.fuzz.targets import TARGETS
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"name a target: {', '.join(TARGETS)}")
    name, *options = sys.argv[1:]
    directories = [] if any(not option.startswith("-") for option in options) else [str(DIRECTORY / name)]
    atheris.Setup([sys.argv[0], "-max_len=4096", *options, *directories], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
