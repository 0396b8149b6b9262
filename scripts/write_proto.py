"""Write the files under proto/ from the message classes: `python scripts/write_proto.py [--check]`."""

from __future__ import annotations

import sys
from pathlib import Path

from pytubemq.wire.descriptors import FILES
from pytubemq.wire.protofile import render


def main() -> int:
    """Write each file, or with --check only say which differ."""
    folder = Path(__file__).resolve().parent.parent / "proto"
    check = "--check" in sys.argv[1:]
    differing = 0
    folder.mkdir(exist_ok=True)
    for name in FILES:
        path, text = folder / name, render(name)
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        differing += 1
        print(f"{path.name} {'differs from the classes' if check else 'written'}")
        if not check:
            path.write_text(text, encoding="utf-8")
    return 1 if check and differing else 0


if __name__ == "__main__":
    sys.exit(main())
