"""Measures this checkout beside another commit of the project: `python -m bench.pairs COMMIT --only consume`.

Both have a cluster of their own, both at once; readings are taken in turn, every other pair in reverse, and what counts
is the median of the pairs' ratios: what else the machine does meanwhile hits both sides of a pair alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.harness import device
from bench.harness.decisions import alternating, median
from bench.harness.processes import ROOT, RunError, started

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

NAMES = ("single", "packs-1k", "packs-100", "consume")
READING_TIMEOUT_S = 180.0
CLOSE_TIMEOUT_S = 30.0
HERE, BEFORE = "here", "before"


class Side:
    """A checkout's cluster and clients, in a process of their own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self) -> Any:
        """What it prints next.

        Raises:
            RunError: it ended, or said nothing in time.
        """
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(READING_TIMEOUT_S):
                said = await self._process.stdout.readline()
        except TimeoutError:
            raise RunError(f"a reading took longer than {READING_TIMEOUT_S:g} s") from None
        if not said:
            assert self._process.stderr is not None
            raise RunError((await self._process.stderr.read()).decode("utf-8", "replace")[-2000:])
        return json.loads(said)

    async def take(self, name: str) -> dict[str, Any]:
        """One reading."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name}\n".encode())
        found: dict[str, Any] = await self.line()
        return found

    async def close(self) -> None:
        """Let it end its cluster; whoever killed it would leave the cluster's files."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await self._process.wait()


@contextlib.contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """The project at that commit, in a directory that goes with the block."""
    with tempfile.TemporaryDirectory(prefix="pytubemq-pairs-") as home:
        tree = Path(home) / "tree"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), commit], cwd=ROOT, check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)


@contextlib.asynccontextmanager
async def side(tree: Path, *, quick: bool) -> AsyncIterator[tuple[Side, list[str]]]:
    """A checkout's side and the readings that it knows."""
    command = [sys.executable, str(ROOT / "bench" / "side.py"), *(["--quick"] if quick else [])]
    paths = {"PYTHONPATH": os.pathsep.join([str(tree), str(tree / "src")]), "PYTHONSAFEPATH": "1"}
    async with started(command, cwd=tree, more=paths) as process:
        running = Side(process)
        yield running, await running.line()
        await running.close()


def cpu_us(reading: dict[str, Any]) -> float:
    """Processor time of client and Broker for one message, microseconds."""
    cores = sum(value for who, value in reading["cores"].items() if who != "others")
    return float(cores / reading["msgs_per_s"] * 1e6)


def row(name: str, found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The ratios of a reading's pairs: this checkout's rate by the other's, and likewise the processor time."""
    rates = {who: [float(reading["msgs_per_s"]) for reading in taken] for who, taken in found.items()}
    costs = {who: [cpu_us(reading) for reading in taken] for who, taken in found.items()}
    return {
        "measure": name,
        "rate_ratio": _paired(rates[HERE], rates[BEFORE]),
        "cpu_ratio": _paired(costs[HERE], costs[BEFORE]),
        "msgs_per_s": {who: round(median(values) or 0) for who, values in rates.items()},
        "cpu_us": {who: round(median(values) or 0, 2) for who, values in costs.items()},
        "pairs": len(rates[HERE]),
    }


def _paired(here: Sequence[float], before: Sequence[float]) -> dict[str, float]:
    ratios = sorted(a / b for a, b in zip(here, before, strict=True))
    return {"median": round(median(ratios) or 0, 3), "least": round(ratios[0], 3), "most": round(ratios[-1], 3)}


async def measure(tree: Path, only: Sequence[str], pairs: int, *, quick: bool) -> None:
    """Print a row of JSON for each reading."""
    async with side(ROOT, quick=quick) as (here, names), side(tree, quick=quick) as (before, known):
        sides = {HERE: here, BEFORE: before}
        for name in names:
            if name not in known or (only and name.split()[0] not in only):
                continue
            found: dict[str, list[dict[str, Any]]] = {HERE: [], BEFORE: []}
            for number, who in alternating((HERE, BEFORE), pairs):
                print(f"{name}: {who}, {number + 1} of {pairs}", file=sys.stderr)
                await asyncio.to_thread(device.settle)
                found[who].append(await sides[who].take(name))
            print(json.dumps(row(name, found)), flush=True)


@click.command(help="Measure this checkout beside COMMIT, in pairs; one JSON object a reading.")
@click.argument("commit")
@click.option("--only", multiple=True, type=click.Choice(NAMES), help="Only this measure; may be given more than once.")
@click.option("--pairs", type=click.IntRange(1, 99), default=10, help="Pairs of readings [10].")
@click.option("--quick", is_flag=True, help="Shorter readings.")
def main(commit: str, only: tuple[str, ...], pairs: int, quick: bool) -> None:
    """Make the other checkout, measure, remove it."""
    with checkout(commit) as tree:
        asyncio.run(measure(tree, only, pairs, quick=quick))


if __name__ == "__main__":
    main()
