#!/usr/bin/env python3
"""Settings of this machine's pip in the environment variables of uv, which reads no pip.conf.

Whatever installs packages with uv uses these: `scripts/setup`, and the benchmarks for the clients of other systems.
The invariant: a variable that is set already stays as it is. Printed as shell commands; the standard library is enough.
"""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SECTIONS = ("global", "install", ":env:")
"""Sections of pip's configuration that hold for installs; the later one wins."""
NAMES = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "cert": "SSL_CERT_FILE"}


def uv_environment(environment: Mapping[str, str] = os.environ, *, python: str = sys.executable) -> dict[str, str]:
    """Return the variables that let uv use the index, links and certificate that `python`'s pip uses.

    Without a pip there is nothing to pass on.
    """
    command = [python, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(environment)).stdout
    found = translate(listed)
    return {name: value for name, value in found.items() if not environment.get(name)}


def translate(listed: str) -> dict[str, str]:
    """Return uv's variables for what `pip config list` prints."""
    settings: dict[str, str] = {}
    for section in SECTIONS:
        for line in listed.splitlines():
            key, equals, value = line.partition("=")
            if equals and key.startswith(f"{section}."):
                settings[key.removeprefix(f"{section}.")] = str(ast.literal_eval(value))
    found = {
        variable: " ".join(settings[name].split()) for name, variable in NAMES.items() if settings.get(name, "").strip()
    }
    links = ",".join(filter(_is_usable, settings.get("find-links", "").split()))
    if links:
        found["UV_FIND_LINKS"] = links
    if settings.get("no-index"):
        found["UV_NO_INDEX"] = "1"
    return found


def _is_usable(link: str) -> bool:
    """True if uv takes a link: it fails at a directory that is not there, which pip passes over."""
    return "://" in link or Path(link).is_dir()


if __name__ == "__main__":
    for name, value in uv_environment().items():
        print(f"export {name}={shlex.quote(value)}")
