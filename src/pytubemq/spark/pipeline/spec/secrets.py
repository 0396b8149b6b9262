"""References in a pipeline's texts: `${env:NAME}`, `${file:/path}`, `${var:name}`.

The invariant: a secret's value is made by `resolve` where it is used, and lies in no value of the model; what is shown
goes through `redacted`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.errors import ConfigError
from pytubemq.model.limits import KIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_SECRET_BYTES: Final = 64 * KIB
REDACTED: Final = "***"

_ANY: Final = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{")
_BODY: Final = re.compile(r"(env|file|var):(.*?)(?::-(.*))?", re.DOTALL)
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_NAME: Final = re.compile(
    r"pass(word|wd|phrase)?$|secret|token|credential|api.?key|access.?key|private.?key", re.I
)
_IN_URL: Final = re.compile(r"(?i)([?;&](?:password|passwd|pwd|token|secret)=)([^&;]*)|(?<=://)([^/@:\s]+):([^/@\s]+)@")
_SASL: Final = re.compile(r"(?i)((?:password|secret)\s*=\s*)(\"[^\"]*\"|'[^']*'|[^\s;]+)")


class Reference(NamedTuple):
    """One `${...}` of a text."""

    kind: str
    name: str
    default: str | None
    start: int
    end: int


def references(text: str) -> Iterator[Reference]:
    """Those of a text, in order; one that is malformed has an empty kind. `$${` is none."""
    for found in _ANY.finditer(text):
        if found[0] == "$${":
            continue
        body = _BODY.fullmatch(found[1] or "")
        sound = body is not None and bool(body[2].strip()) and (body[1] != "env" or _ENV_NAME.fullmatch(body[2]))
        if body is None or not sound:
            yield Reference("", found[0], None, found.start(), found.end())
        else:
            yield Reference(body[1], body[2], body[3], found.start(), found.end())


def with_variables(text: str, variables: Mapping[str, str]) -> str:
    """The text with each `${var:name}` that is given or has a default replaced; all else as it is."""
    made, at = [], 0
    for reference in references(text):
        value = variables.get(reference.name, reference.default) if reference.kind == "var" else None
        if value is not None:
            made += [text[at : reference.start], value]
            at = reference.end
    return "".join([*made, text[at:]])


def resolve(text: str) -> str:
    """The text with its references replaced by what they stand for; a file's last line end is left out.

    Raises:
        ConfigError: a variable is not set, a file cannot be read, or a reference is malformed.
    """
    made, at = [], 0
    for reference in references(text):
        made += [_unescaped(text[at : reference.start]), _value(reference)]
        at = reference.end
    return "".join([*made, _unescaped(text[at:])])


def resolve_all(options: Mapping[str, str]) -> dict[str, str]:
    """A mapping with each value resolved."""
    return {name: resolve(value) for name, value in options.items()}


def is_secret_name(name: str) -> bool:
    """Whether an option of this name holds a secret by what it is called."""
    return _SECRET_NAME.search(name) is not None


def holds_plain_secret(name: str, text: str) -> bool:
    """Whether a secret stands in a value itself, not by reference."""
    without = _ANY.sub("", text)
    if is_secret_name(name):
        return bool(without.strip())
    if any((found[2] or found[4] or "").strip() for found in _IN_URL.finditer(without)):
        return True
    return name.lower().endswith("jaas.config") and any(found[2].strip("\"'") for found in _SASL.finditer(without))


def redacted(name: str, text: str) -> str:
    """A value as it may be shown: references stay, as they say nothing; what is a secret itself goes."""
    if not holds_plain_secret(name, text):
        return text
    if is_secret_name(name):
        return REDACTED
    if name.lower().endswith("jaas.config"):
        return _SASL.sub(lambda found: f"{found[1]}{REDACTED}", text)
    return _IN_URL.sub(lambda found: f"{found[1]}{REDACTED}" if found[1] else f"{found[3]}:{REDACTED}@", text)


def is_there(reference: Reference) -> bool:
    """Whether `resolve` would find what a reference to the environment or a file stands for."""
    if reference.default is not None:
        return True
    return reference.name in os.environ if reference.kind == "env" else Path(reference.name).is_file()


def _unescaped(text: str) -> str:
    return text.replace("$${", "${")


def _value(reference: Reference) -> str:
    if reference.kind == "env":
        value = os.environ.get(reference.name, reference.default)
        if value is None:
            raise ConfigError(
                f"the environment variable {reference.name} is not set", hint=f"export {reference.name}=..."
            )
        return value
    if reference.kind == "file":
        return _file(reference)
    if reference.kind == "var" and reference.default is not None:
        return reference.default
    if reference.kind == "var":
        raise ConfigError(f"the variable {reference.name} has no value", hint=f"--set {reference.name}=...")
    raise ConfigError(
        f"{reference.name!r} is no reference", hint="write ${env:NAME}, ${file:/path} or ${var:name}; $${ is a plain ${"
    )


def _file(reference: Reference) -> str:
    try:
        with open(reference.name, "rb") as file:
            held = file.read(MAX_SECRET_BYTES + 1)
        if len(held) > MAX_SECRET_BYTES:
            raise ConfigError(f"the file {reference.name} is longer than {MAX_SECRET_BYTES} bytes", hint="name another")
        return held.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except OSError as error:
        if reference.default is not None:
            return reference.default
        raise ConfigError(
            f"the file {reference.name} cannot be read: {error.strerror}", hint="see ${file:...}"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the file {reference.name} is no text in UTF-8", hint="see ${file:...}") from error
