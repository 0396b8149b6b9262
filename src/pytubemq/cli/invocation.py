"""Commands in the form that works where the user types them.

The invariant: a printed command can be typed as it is: with its bare name only where the shell finds this very
program by it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

PROGRAM = "pytubemq"
DEMO_VARIABLE = "PYTUBEMQ_DEMO_COMMAND"
"""The command that the user typed for the demo, where a script started it: `scripts/demo`."""


def as_typed(command: str) -> str:
    """Return `pytubemq demo --chaos` as it is typed here: `.venv/bin/pytubemq demo --chaos`, `scripts/demo --chaos`."""
    words = command.split(" ", 2)
    script = os.environ.get(DEMO_VARIABLE)
    if script and words[:2] == [PROGRAM, "demo"]:
        return " ".join([script, *words[2:]])
    return " ".join([_program(), *words[1:]])


def commands_as_typed(text: str, commands: list[str]) -> str:
    """Return a text with every `pytubemq COMMAND` as it is typed here."""
    names = "|".join(map(re.escape, [*commands, "--help"]))
    return re.sub(rf"(?<![\w/.-]){PROGRAM} (?:{names})(?![\w-])", lambda found: as_typed(found[0]), text)


def _program() -> str:
    program = _executable()
    if program is None:
        return PROGRAM
    found = shutil.which(PROGRAM)
    if found is not None and os.path.realpath(found) == os.path.realpath(program):
        return PROGRAM
    try:
        near = os.path.relpath(program)
    except (OSError, ValueError):  # the directory we are in is gone, or on another drive
        near = str(program)
    shown = near if len(near) < len(str(program)) else str(program)
    return shlex.quote(shown if os.sep in shown else os.path.join(os.curdir, shown))


def _executable() -> Path | None:
    """Return the file by which this program was started, or the one beside its interpreter for `python -m`."""
    started = Path(sys.argv[0] or PROGRAM)
    if started.name == "__main__.py" and started.parent.name == PROGRAM:
        started = Path(sys.executable).with_name(PROGRAM)
    if started.name != PROGRAM:
        return None
    # Not resolved: a link to it is what the user typed.
    whole = Path(os.path.abspath(started))
    return whole if whole.is_file() else None
