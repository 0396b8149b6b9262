"""Every command that a text of ours recommends exists, with the words and options that the text gives it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

import pytubemq
from pytubemq.cli.main import root

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(pytubemq.__file__).parent
FILLED = "\0"
"""Stands for what an f-string fills in."""
RECOMMENDED = re.compile(r"(?:`|: |  |^|Next:  |with |see )pytubemq ([a-z][^`;,()|\n]*?)(?=  | or |[`;,()|\n]|$)")
OPTION = re.compile(r"(?<!\S)(--[a-z][a-z-]*|-[a-zA-Z])(?![\w-])")


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The string literals of a module, f-strings with a mark where they are filled in."""
    inside: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.JoinedStr):
            inside.update(id(part) for part in node.values)
            parts = [part.value if isinstance(part, ast.Constant) else FILLED for part in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.lineno, node.value


def fault(line: str) -> str | None:
    """What is wrong with `group show NAME --topic T`; None if it is a command of ours, or no command at all."""
    context = click.Context(root, info_name="pytubemq")
    command: click.Command = root
    if line in PROSE:
        return None
    words = line.split()
    while words and isinstance(command, click.Group):
        word = words.pop(0).rstrip(".:'\"")
        found = command.get_command(context, word)
        if found is None:
            if FILLED in word or word.isupper():
                return None  # whichever the text is about
            return f"{word!r} is no command" if command is not root or word in SINGULARS else None
        command = found
    known = {name for parameter in command.params for name in parameter.opts}
    unknown = [option for option in OPTION.findall(" ".join(words)) if option not in known]
    return f"{unknown[0]} is no option of {command.name}" if unknown else None


PROSE = {"pipeline file"}
"""The title of a schema."""
SINGULARS = {"broker", "brokers", "topics", "groups", "master", "health", "messages", "config", "message", "topic"}
"""Words that look like commands; others are prose, as in `the pytubemq client`."""


def test_every_recommended_command_exists() -> None:
    found, faults = 0, []
    for path in sorted(ROOT.rglob("*.py")):
        for line_number, text in texts(path):
            for match in RECOMMENDED.finditer(text):
                found += 1
                if problem := fault(match[1]):
                    faults.append(f"{path.relative_to(ROOT)}:{line_number}: pytubemq {match[1]!r}: {problem}")
    assert found > 60, "the texts are where they were"
    assert not faults, "\n".join(faults)


def test_the_check_sees_what_is_wrong() -> None:
    assert fault("brokers list") == "'brokers' is no command"
    assert fault("topic shows demo") == "'shows' is no command"
    assert fault("group show g --topics t") == "--topics is no option of show"
    assert fault("group show g --topic t") is None
    assert fault("client that runs") is None
