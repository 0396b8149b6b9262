"""Faults of a pipeline file: a code for each, its meaning and its remedy.

The invariant: every fault that is reported has a code of this table; P0xx are errors, P2xx warnings, and a code keeps
its meaning for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from pytubemq.errors import TubeError


class Severity(StrEnum):
    """Error or warning: a file with an error does not run."""

    ERROR = "error"
    WARNING = "warning"


class FaultCode(StrEnum):
    """Kinds of fault."""

    UNREADABLE = "P001"
    SYNTAX = "P002"
    TOO_LARGE = "P003"
    DUPLICATE_KEY = "P004"
    MISSING_KEY = "P010"
    WRONG_TYPE = "P011"
    UNKNOWN_KEY = "P012"
    BAD_VALUE = "P013"
    BAD_REFERENCE = "P014"
    CONTRADICTION = "P020"
    DUPLICATE_NAME = "P021"
    UNKNOWN_NAME = "P022"
    UNKNOWN_INPUT = "P023"
    SINK_LACKS_KEY = "P024"
    SINK_TAKES_NO_KEY = "P025"
    GUARANTEE_IMPOSSIBLE = "P026"
    SPARK_SETTING_REFUSED = "P027"
    DECODE_OPTION = "P028"
    SOURCE_OPTION = "P029"
    BAD_TEST = "P030"
    SINK_OPTION = "P031"
    STEP_DOES_NOT_COMPILE = "P032"
    SINK_NOT_READY = "P033"
    TOPIC_MISSING = "P034"
    CLUSTER_AWAY = "P035"
    OTHER_PROGRESS = "P036"
    NOT_APART = "P037"
    PLAIN_SECRET = "P201"
    REFERENCE_NOT_THERE = "P202"
    NOTHING_REJECTED = "P203"
    DEFAULT_DEAD_LETTER = "P204"
    UNUSED = "P205"
    DEFAULT_STATE = "P207"
    ROWS_DIFFER = "P208"
    LIMIT_OF_MAIN = "P209"


class Meaning(NamedTuple):
    """The meaning of a code and its remedy."""

    name: str
    meaning: str
    remedy: str


FAULT_MEANINGS: Final[dict[FaultCode, Meaning]] = {
    FaultCode.UNREADABLE: Meaning(
        "unreadable", "the file cannot be read, or is not text", "name a UTF-8 file that ends in .yaml, .yml or .toml"
    ),
    FaultCode.SYNTAX: Meaning("syntax", "the file is not YAML, or not TOML", "correct the named place"),
    FaultCode.TOO_LARGE: Meaning(
        "too-large", "the file is longer or more deeply nested than any pipeline needs", "split the pipeline"
    ),
    FaultCode.DUPLICATE_KEY: Meaning("duplicate-key", "a key is given twice in one place", "keep one of the two"),
    FaultCode.MISSING_KEY: Meaning("missing-key", "a required key is missing", "add it"),
    FaultCode.WRONG_TYPE: Meaning(
        "wrong-type", "a value has the wrong type for its key", "write it as the message says"
    ),
    FaultCode.UNKNOWN_KEY: Meaning(
        "unknown-key", "this place has no such key", "use the name that is suggested, or delete the key"
    ),
    FaultCode.BAD_VALUE: Meaning("bad-value", "the key does not accept this value", "use one that the message names"),
    FaultCode.BAD_REFERENCE: Meaning(
        "bad-reference",
        "a ${...} is malformed or has no value, or --set gives a variable that the file does not use",
        "write ${env:NAME}, ${file:/path} or ${var:name}; give variables with --set name=value; $${ is a plain ${",
    ),
    FaultCode.CONTRADICTION: Meaning(
        "contradiction", "two keys are given that exclude each other", "delete one of them"
    ),
    FaultCode.DUPLICATE_NAME: Meaning(
        "duplicate-name", "two steps, tables or sinks have the same name", "give each its own name; case is ignored"
    ),
    FaultCode.UNKNOWN_NAME: Meaning(
        "unknown-name",
        "a step reads a name that is neither `input`, an earlier step nor a table of the file",
        "correct the name; a table of Spark's catalog is written with its database, as in default.orders",
    ),
    FaultCode.UNKNOWN_INPUT: Meaning(
        "unknown-input", "a sink reads a step that does not exist", "name a step"
    ),
    FaultCode.SINK_LACKS_KEY: Meaning(
        "sink-lacks-key", "a key is missing that the sink's format needs", "add it; see the reference of the file"
    ),
    FaultCode.SINK_TAKES_NO_KEY: Meaning(
        "sink-takes-no-key", "the sink's format does not use this key", "delete the key, or use another format"
    ),
    FaultCode.GUARANTEE_IMPOSSIBLE: Meaning(
        "guarantee-impossible",
        "the sink cannot give the guarantee that `guarantee` asks for",
        "do what the message says is needed, or ask for at_least_once",
    ),
    FaultCode.SPARK_SETTING_REFUSED: Meaning(
        "spark-setting-refused", "a Spark setting is not safe for this pipeline", "delete the setting"
    ),
    FaultCode.DECODE_OPTION: Meaning("decode-option", "a decoder setting is not valid", "see the page about formats"),
    FaultCode.SOURCE_OPTION: Meaning("source-option", "a source setting is not valid", "see the page of the source"),
    FaultCode.BAD_TEST: Meaning(
        "bad-test", "a test gives or expects something that cannot be", "name sinks of the file, and keys of a message"
    ),
    FaultCode.SINK_OPTION: Meaning("sink-option", "an option of the sink is not valid", "see the page of the sink"),
    FaultCode.STEP_DOES_NOT_COMPILE: Meaning(
        "step-does-not-compile", "Spark refuses a step's query, or its function fails", "correct it at the named place"
    ),
    FaultCode.SINK_NOT_READY: Meaning(
        "sink-not-ready", "a sink cannot be reached or written, or has other columns", "do as the message says"
    ),
    FaultCode.TOPIC_MISSING: Meaning(
        "topic-missing", "a topic that the file names does not exist in its cluster", "correct it, or create the topic"
    ),
    FaultCode.CLUSTER_AWAY: Meaning(
        "cluster-away", "no Master that the file names responds", "check that they run, and the addresses in the file"
    ),
    FaultCode.OTHER_PROGRESS: Meaning(
        "other-progress",
        "the state directory, or a sink's log, has the progress of another pipeline",
        "do as the message says, or give the pipeline a `state` of its own",
    ),
    FaultCode.NOT_APART: Meaning(
        "not-apart",
        "a backfill or a redrive cannot feed this sink: its step keeps state, or its layout is log",
        "run a copy of the file without the sink",
    ),
    FaultCode.PLAIN_SECRET: Meaning(
        "plain-secret", "a password or token is in the file", "put ${env:NAME} or ${file:/path} in its place"
    ),
    FaultCode.REFERENCE_NOT_THERE: Meaning(
        "reference-not-there",
        "an environment variable or a file that the pipeline refers to does not exist now",
        "set it before dry-run and run, or give a default: ${env:NAME:-value}",
    ),
    FaultCode.NOTHING_REJECTED: Meaning(
        "nothing-rejected",
        "no record can become a dead letter",
        "delete dead_letter, or decode with on_error: dead_letter",
    ),
    FaultCode.DEFAULT_DEAD_LETTER: Meaning(
        "default-dead-letter",
        "`dead_letter` is not given, so rejected records are stored in the state directory",
        "add dead_letter, or set on_error: drop or fail",
    ),
    FaultCode.UNUSED: Meaning("unused", "nothing reads this step or table", "delete it, or read it somewhere"),
    FaultCode.DEFAULT_STATE: Meaning(
        "default-state",
        "`state` is not given, so progress is stored beside the file, on this machine",
        "set state to a directory that outlives the machine",
    ),
    FaultCode.ROWS_DIFFER: Meaning(
        "rows-differ",
        "a step gives different rows when a batch is repeated, but a topic sink numbers them; the run refuses that",
        "use a time from the message, or give the sink idempotency_key or options.idempotent: false",
    ),
    FaultCode.LIMIT_OF_MAIN: Meaning(
        "limit-of-main",
        "a limit of dead_letter ends the run, but sinks after steps that keep state, and sinks with layout log, read "
        "the source on their own: they may already have the batch's other rows, or get them at the next start",
        "use on_error: fail, which applies to every sink, or move those sinks to a file of their own",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, and where. Lines and columns begin at 1."""

    file: str
    line: int
    column: int
    severity: Severity
    key: str
    """The key as texts show it: `sinks.lake.path`; empty for the file as a whole."""
    message: str
    hint: str | None
    code: FaultCode
    path: str = field(default="", compare=False)
    """The key as `places` names it: `sinks[0].path`."""
    at_key: bool = field(default=False, compare=False)
    """True if the key itself is wrong, whatever its value."""
    cause: TubeError | None = field(default=None, compare=False)
    """The error that a run raises for it; None for a `ConfigError`."""

    @property
    def place(self) -> str:
        """As compilers write it; a file that cannot be read has no lines, a pipeline made in Python no file."""
        if not self.file:
            return ""
        return self.file if self.code is FaultCode.UNREADABLE else f"{self.file}:{self.line}:{self.column}"

    @property
    def text(self) -> str:
        """Without its place: `decode.on_eror: unknown key, did you mean "on_error"?`."""
        said = f"{self.key}: {self.message}" if self.key else self.message
        return f"{said}, {self.hint}" if self.hint else said


def severity_of(code: FaultCode) -> Severity:
    """Return the severity of a code: P2xx are warnings."""
    return Severity.WARNING if code.value.startswith("P2") else Severity.ERROR


class FaultLocator(Protocol):
    """The places of a file, as far as an error needs them."""

    def placed(self, fault: Fault) -> Fault:
        """Return a fault that was found without the file, with its line and column."""
        ...


class PipelineFileError(ConfigError):
    """A pipeline has errors; `faults` are all of them, warnings too."""

    def __init__(self, faults: tuple[Fault, ...], *, hint: str | None = None) -> None:
        super().__init__("", hint=hint)
        self.faults = faults
        self._said = hint
        self._set_message()

    def put(self, places: FaultLocator) -> None:
        """Add line and column to faults that were found without the file at hand."""
        self.faults = tuple(fault if fault.file else places.placed(fault) for fault in self.faults)
        self._set_message()

    def _set_message(self) -> None:
        first, *others = (fault for fault in self.faults if fault.severity is Severity.ERROR)
        more = f" (and {len(others)} more)" if others else ""
        if first.code is FaultCode.UNREADABLE:  # it is the only one, and lint can say no more
            self.message, self.hint = f"{first.file}: {first.message} [{first.code}]", self._said or first.hint
        else:
            self.message = f"{first.place} {first.text} [{first.code}]{more}".lstrip()
            rest = [f"also {f'{fault.place} ' if fault.place else ''}{fault.text}" for fault in others]
            self.hint = self._said or "; ".join(rest) or None
        self.args = (self.message,)
