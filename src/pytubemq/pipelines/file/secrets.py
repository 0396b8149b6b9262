"""References in a pipeline's texts: `${env:NAME}`, `${file:/path}`, `${var:name}`.

The invariant: a secret's value is made by `resolve` where it is used, and lies in no value of the model; what is shown
goes through `redact`, and what another system says through `without_secrets`. A reference's default stands in the
file, so it is looked at as the plain text that it is.
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
MOST_GIVEN_OUT: Final = 1000
SHORTEST_HIDDEN: Final = 4
"""What is shorter is in too many words to be hidden in a text."""
REDACTED: Final = "***"

_ANY: Final = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{")
_BODY: Final = re.compile(r"(env|file|var):(.*?)(?::-(.*))?", re.DOTALL)
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_NAME: Final = re.compile(
    r"""pass(?:word|wd|phrase|code)(?![._-]?(?:file|path|location)) | pass$ | pwd | token | credential
    | secret(?![._-]?file$)
    | (?:api|access|account|private|shared|storage|encryption|keystore)[._-]?key
    | (?:^|[._-])(?:sas|sig|signature)(?:[._-]|$) | user[._-]?info | connection[._-]?string""",
    re.IGNORECASE | re.VERBOSE,
)
_IN_URL: Final = re.compile(
    r"""(?P<option> [?;&(,]
            (?: [\w.-]*(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|credentials?)
              | (?:[\w.-]*[._-])?(?:sig|signature|sas)
              | (?:[\w.-]*(?:access|account|api|private|secret|shared|storage)[\w.-]*)?key )= ) (?P<value>[^&;]*)
    | (?P<user> (?<=://)[^/@:\s]*): (?!\d+(?:[/?,;\#]|$)) (?P<password>\S+)@
    | (?P<oracle> jdbc:oracle:\w+:[^/@\s]*)/ (?P<tiger>\S+)@""",
    re.IGNORECASE | re.VERBOSE,
)
"""Options of a URL; `user:password@`, up to the last `@`, as a password may hold one; a port is no password."""
_SASL: Final = re.compile(r"(?i)((?:password|secret)\s*=\s*)(\"[^\"]*\"|'[^']*'|[^\s;]+)")

_given_out: Final[dict[str, None]] = {}
"""What references have become in this process, in their order."""


class _TextPart(NamedTuple):
    """A part of a text: a reference, or the text between two."""

    text: str
    plain: str
    """The text in the file itself: of a reference the default, if it has one."""
    before: str | None
    """The text before the default of a reference, if it has one."""


class Reference(NamedTuple):
    """One `${...}` of a text."""

    kind: str
    name: str
    default: str | None
    start: int
    end: int


def references(text: str) -> Iterator[Reference]:
    """Yield the references in a text, in order; a malformed one has an empty kind. `$${` is none."""
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
    """Replace each `${var:name}` in a text that is given or has a default; all else stays."""
    made, at = [], 0
    for reference in references(text):
        value = variables.get(reference.name, reference.default) if reference.kind == "var" else None
        if value is not None:
            made += [text[at : reference.start], value]
            at = reference.end
    return "".join([*made, text[at:]])


def resolve(text: str, *, secret: bool = True) -> str:
    """Replace a text's references by what they stand for; a file's last line end is left out.

    Args:
        text: with references.
        secret: True if `without_secrets` hides what they stand for from now on.

    Raises:
        ConfigError: a variable is not set, a file cannot be read, or a reference is malformed.
    """
    made, at = [], 0
    for reference in references(text):
        value, from_outside = _value(reference)
        if secret and from_outside:
            _keep_hidden(value)
        made += [_unescaped(text[at : reference.start]), value]
        at = reference.end
    return "".join([*made, _unescaped(text[at:])])


def resolve_all(options: Mapping[str, str]) -> dict[str, str]:
    """Resolve each value of a mapping of options."""
    for name, value in options.items():
        hide_defaults(name, value)
    return {name: resolve(value) for name, value in options.items()}


def is_secret_name(name: str) -> bool:
    """True if an option's name says that it holds a secret."""
    return _SECRET_NAME.search(name) is not None


def holds_plain_secret(name: str, text: str) -> bool:
    """True if a secret is in a value itself, not by reference; the default of a reference counts."""
    return bool(_secret_spans(name, _plain(text)))


def redact(name: str, text: str) -> str:
    """Return a value as it may be shown: references stay, as they reveal nothing; secrets themselves go."""
    plain = _plain(text)
    spans = _secret_spans(name, plain)
    if not spans:
        return text
    shown, at = [], 0
    for piece in _pieces(text):
        end = at + len(piece.plain)
        inside = [span for span in spans if span[0] < end and span[1] > at]
        if piece.before is not None and inside:
            shown.append(f"{piece.before}{REDACTED}}}")
        elif piece.plain and inside:
            shown.append(_masked(plain, at, end, inside))
        else:
            shown.append(piece.text)
        at = end
    return "".join(shown)


def hide_defaults(name: str, text: str) -> None:
    """Let `without_secrets` hide defaults that are secrets by where they stand."""
    spans, at = _secret_spans(name, _plain(text)), 0
    for piece in _pieces(text):
        end = at + len(piece.plain)
        if piece.before is not None and any(start < end and stop > at for start, stop in spans):
            _keep_hidden(piece.plain)
        at = end


def without_secrets(text: str) -> str:
    """Replace in a message of Spark or a driver all that `resolve` has put in for references by `***`."""
    for value in sorted(tuple(_given_out), key=len, reverse=True):
        text = text.replace(value, REDACTED)
    return text


def is_there(reference: Reference) -> bool:
    """True if `resolve` would find what a reference to the environment or a file stands for."""
    if reference.default is not None:
        return True
    return reference.name in os.environ if reference.kind == "env" else Path(reference.name).is_file()


def _pieces(text: str) -> Iterator[_TextPart]:
    at = 0
    for found in _ANY.finditer(text):
        if found.start() > at:
            yield _TextPart(text[at : found.start()], text[at : found.start()], None)
        body = _BODY.fullmatch(found[1] or "")
        if body is not None and body[3]:
            yield _TextPart(found[0], body[3], f"${{{body[1]}:{body[2]}:-")
        else:
            yield _TextPart(found[0], "", None)
        at = found.end()
    yield _TextPart(text[at:], text[at:], None)


def _plain(text: str) -> str:
    return "".join(piece.plain for piece in _pieces(text))


def _secret_spans(name: str, plain: str) -> list[tuple[int, int]]:
    """Find the secrets in what a file says itself, in order."""
    if is_secret_name(name):
        return [(0, len(plain))] if plain.strip() else []
    spans = [
        found.span(group)
        for found in _IN_URL.finditer(plain)
        for group in ("value", "password", "tiger")
        if (found[group] or "").strip()
    ]
    if name.lower().endswith("jaas.config"):
        spans += [found.span(2) for found in _SASL.finditer(plain) if found[2].strip("\"'")]
    return sorted(spans)


def _masked(plain: str, start: int, end: int, spans: list[tuple[int, int]]) -> str:
    """Mask the spans in a part of a text as `***`."""
    made, at = [], start
    for first, last in spans:
        if last > at:
            made += [plain[at : max(at, first)], REDACTED]
            at = min(last, end)
    return "".join([*made, plain[at:end]])


def _unescaped(text: str) -> str:
    return text.replace("$${", "${")


def _keep_hidden(value: str) -> None:
    """Remember a value that was given out, and its lines, as errors are shown line by line. The oldest are forgotten if
    there are too many. A path that is there is no secret.
    """
    if os.path.isabs(value) and os.path.exists(value):
        return
    for part in (value, *value.splitlines()):
        if len(part.strip()) >= SHORTEST_HIDDEN:
            _given_out.pop(part, None)
            _given_out[part] = None
    for part in tuple(_given_out)[: max(0, len(_given_out) - MOST_GIVEN_OUT)]:
        _given_out.pop(part, None)


def _value(reference: Reference) -> tuple[str, bool]:
    """Return the value of a reference, and True if it is not its default."""
    if reference.kind == "env":
        if reference.name in os.environ:
            return os.environ[reference.name], True
        missing = ConfigError(
            f"the environment variable {reference.name} is not set", hint=f"export {reference.name}=..."
        )
    elif reference.kind == "file":
        try:
            return _file(reference), True
        except OSError as error:
            missing = ConfigError(f"the file {reference.name} cannot be read: {error.strerror}", hint="see ${file:...}")
    elif reference.kind == "var":
        missing = ConfigError(f"the variable {reference.name} has no value", hint=f"--set {reference.name}=...")
    else:
        missing = ConfigError(
            f"{reference.name!r} is not a reference",
            hint="write ${env:NAME}, ${file:/path} or ${var:name}; $${ is a plain ${",
        )
    if reference.default is None:
        raise missing
    return reference.default, False


def _file(reference: Reference) -> str:
    with open(reference.name, "rb") as file:
        held = file.read(MAX_SECRET_BYTES + 1)
    if len(held) > MAX_SECRET_BYTES:
        raise ConfigError(f"the file {reference.name} is longer than {MAX_SECRET_BYTES} bytes", hint="name another")
    try:
        return held.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise ConfigError(f"the file {reference.name} is not text in UTF-8", hint="see ${file:...}") from error
