"""A pipeline file, read: values, places and faults. Needs neither Spark nor a cluster, and imports neither."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytubemq.model.limits import MAX_PIPELINE_FILE_BYTES
from pytubemq.model.suggest import suggest
from pytubemq.pipelines.file.document import scalars
from pytubemq.pipelines.file.faults import Fault, FaultCode, PipelineFileError, Severity, severity_of
from pytubemq.pipelines.file.reading.build import Builder
from pytubemq.pipelines.file.reading.toml_file import parse_toml
from pytubemq.pipelines.file.reading.yaml_file import parse_yaml
from pytubemq.pipelines.file.secrets import references
from pytubemq.pipelines.file.source_positions import Places

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pytubemq.pipelines.file.document import Mark, Node
    from pytubemq.pipelines.file.model import Pipeline


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file that was read, with its faults. `pipeline` is None if a part that it needs is missing or wrong."""

    pipeline: Pipeline | None
    places: Places
    faults: tuple[Fault, ...]
    variables: frozenset[str] = frozenset()
    """The names of all `${var:name}` in it."""

    @property
    def errors(self) -> tuple[Fault, ...]:
        """The faults with which it does not run."""
        return tuple(fault for fault in self.faults if fault.severity is Severity.ERROR)

    def require(self) -> Pipeline:
        """Return the pipeline.

        Raises:
            PipelineFileError: the file has errors; they are in it.
        """
        if self.pipeline is None or self.errors:
            unreadable = self.faults[0].code is FaultCode.UNREADABLE
            hint = None if unreadable else f"to see all of them:  pytubemq pipeline lint {self.places.file}"
            raise PipelineFileError(self.faults, hint=hint)
        return self.pipeline


def load(path: str | Path, *, variables: Mapping[str, str] | None = None) -> Loaded:
    """Read a file: `.toml` as TOML, all else as YAML. `variables` are what `${var:name}` stands for.

    Only its form is looked at here; `lint` also looks at what it means.
    """
    shown = str(path)
    places = Places(shown)
    faults: list[Fault] = []

    def say(code: FaultCode, mark: Mark, key: str, message: str, hint: str | None) -> None:
        faults.append(Fault(shown, mark.line, mark.column, severity_of(code), key, message, hint, code))

    text = _text(Path(path), places, faults)
    if text is None:
        return Loaded(None, places, tuple(faults))
    places.lines = tuple(text.splitlines())
    tree = parse_toml(text, say) if Path(path).suffix.lower() == ".toml" else parse_yaml(text, say)
    if tree is None:
        return Loaded(None, places, tuple(faults))
    pipeline = Builder(places, faults, dict(variables or {})).pipeline(tree)
    named = _named(tree)
    faults += _for_nothing(variables or {}, named, places)
    return Loaded(pipeline, places, in_order(faults), named)


def in_order(faults: list[Fault]) -> tuple[Fault, ...]:
    """Sort faults by place in the file."""
    return tuple(sorted(faults, key=lambda fault: (fault.line, fault.column, fault.code)))


def _named(tree: Node) -> frozenset[str]:
    return frozenset(
        reference.name for scalar in scalars(tree) for reference in references(scalar.text) if reference.kind == "var"
    )


def _for_nothing(given: Collection[str], named: Collection[str], places: Places) -> list[Fault]:
    """Report variables that nothing uses: a misspelt one leaves the default, and the run may write elsewhere."""
    faults = []
    for name in sorted(set(given) - set(named)):
        close = suggest(name, named)
        known = f"its variables are {', '.join(sorted(named))}" if named else "it has no variables at all"
        hint = f'did you mean "{close}"?' if close else known
        text = f"--set {name}: the file does not use ${{var:{name}}}"
        faults.append(places.fault(FaultCode.BAD_REFERENCE, "", text, hint))
    return faults


def _text(path: Path, places: Places, faults: list[Fault]) -> str | None:
    try:
        with path.open("rb") as file:
            held = file.read(MAX_PIPELINE_FILE_BYTES + 1)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        text = "no such file" if missing else f"cannot be read: {error.strerror}"
        hint = f"pytubemq pipeline init {shlex.quote(places.file)}  writes one" if missing else None
        faults.append(places.fault(FaultCode.UNREADABLE, "", text, hint))
        return None
    if len(held) > MAX_PIPELINE_FILE_BYTES:
        faults.append(places.fault(FaultCode.TOO_LARGE, "", f"longer than {MAX_PIPELINE_FILE_BYTES} bytes"))
        return None
    try:
        return held.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        faults.append(places.fault(FaultCode.UNREADABLE, "", f"not text in UTF-8: byte {error.start}"))
        return None
