"""The official class that writes and reads InLongMsg, run as a process that answers line by line."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from tests.interop.fetch import cached, digest_of, run_tool, tool
from tests.spark.artifacts import directory

SOURCE = Path(__file__).parent.parent / "java" / "InLongVectors.java"


class InLongClass:
    """One Java process; close it."""

    def __init__(self) -> None:
        jars = directory("inlong")
        compiled = cached(f"inlong-vectors-{digest_of([SOURCE], str(jars))}", lambda into: _compile(into, jars))
        command = [tool("java"), "-cp", f"{compiled}:{jars}/*", "InLongVectors"]
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        self._process: Any = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nothing, text=True)

    def close(self) -> None:
        """End the process."""
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def make(self, version: int, compress: bool, groups: list[tuple[str, list[bytes]]]) -> bytes | None:
        """A message of version 0 to 2; None where the class makes none."""
        pairs = [part for text, records in groups for each in records for part in (text.encode().hex(), each.hex())]
        return _bytes(self._ask("make", str(version), _word(compress), *pairs))

    def make_v3(self, compress: bool, attributes: str, records: list[tuple[bytes, str]]) -> bytes | None:
        """A message of version 3."""
        pieces = [part for data, own in records for part in (data.hex(), own.encode().hex())]
        return _bytes(self._ask("make3", _word(compress), attributes.encode().hex(), *pieces))

    def wrap(self, compress: bool, binary: bytes) -> bytes | None:
        """A message of version 4 around a binary one; None where the class refuses that."""
        return _bytes(self._ask("wrap", _word(compress), binary.hex()))

    def parse(self, message: bytes) -> tuple[int, int, list[tuple[str, list[bytes]]]]:
        """What the class reads: version, time of making, groups."""
        version, created, *groups = self._ask("parse", message.hex()).split(" ")
        split = [group.split(",") for group in groups]
        return (
            int(version),
            int(created),
            [(bytes.fromhex(text).decode(), [bytes.fromhex(each) for each in records]) for text, *records in split],
        )

    def _ask(self, *words: str) -> str:
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        answer = str(self._process.stdout.readline()).strip()
        assert answer, f"the Java process ended at {words[0]}"
        return answer


def _compile(into: Path, jars: Path) -> None:
    run_tool([tool("javac"), "-cp", f"{jars}/*", "-d", str(into), str(SOURCE)], into)


def _word(flag: bool) -> str:
    return "true" if flag else "false"


def _bytes(text: str) -> bytes | None:
    return None if text == "null" else bytes.fromhex(text)
