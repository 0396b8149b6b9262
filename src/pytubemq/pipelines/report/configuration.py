"""A run's configuration, as a report shows it: as YAML, with the defaults in force and the dead letters.

The invariant: all of it comes from the normal form of the pipeline, and nothing is shown that could be a secret.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any, Final

from pytubemq.pipelines.file import model
from pytubemq.pipelines.file.writing.file_form import as_written
from pytubemq.pipelines.report.redact import redact

_READ_BACK: Final = ("parquet", "tubemq")
"""Formats of dead letters that `pytubemq pipeline dlq` reads."""


def as_yaml(spec: Mapping[str, Any]) -> str:
    """Format the normal form as a pipeline file has it; SQL on lines of its own, no secret."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Text of several lines as it was typed."""

    def text(dumper: Any, value: str) -> Any:
        style = "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    plain = json.loads(json.dumps(redact(dict(spec)), default=str))
    written = as_written(plain)
    return str(yaml.dump(written, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100, indent=2))


def defaults_in_force(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return, by key, the defaults in force that affect rows. The normal form leaves them out."""
    source, trigger, spark = _section(spec, "source"), _section(spec, "trigger"), _section(spec, "spark")
    found: dict[str, str] = {}
    if source.get("format", model.Source().format) == model.Source().format and "on_data_loss" not in source:
        found["source.on_data_loss"] = model.Source().on_data_loss
    if spec.get("decode") is not None:
        decode = _section(spec, "decode")
        if "on_error" not in decode:
            found["decode.on_error"] = model.Decode().on_error.value
        if on_error(spec) == model.OnError.DEAD_LETTER.value and "max_ratio" not in _section(spec, "dead_letter"):
            found["dead_letter.max_ratio"] = "none, however many are rejected"
    for sink in spec.get("sinks") or ():
        if isinstance(sink, Mapping) and "on_schema_change" not in sink:
            found[f"sinks.{sink.get('name', '')}.on_schema_change"] = model.OnSchemaChange.FAIL.value
    if "kind" not in trigger:
        found["trigger"] = "a batch as soon as the last one is done"
    if "master" not in spark:
        found["spark.master"] = model.SparkSettings().master
    return found


def on_error(spec: Mapping[str, Any]) -> str:
    """Return the handling of records that could not be decoded."""
    return str(_section(spec, "decode").get("on_error", model.Decode().on_error.value))


def dead_letter_place(spec: Mapping[str, Any], state: str) -> str:
    """Return the place of the dead letters."""
    letters = _section(spec, "dead_letter")
    kind = str(letters.get("format", "parquet"))
    place = next((letters[name] for name in ("topic", "table", "path", "url") if letters.get(name)), None)
    shown = f"{state}/{model.DEAD_LETTER}" if place is None else str(redact(place))
    return f"{kind}: {shown}"


def audit_time(spec: Mapping[str, Any]) -> str:
    """Describe, as HTML in a sentence, the time that the audit's minutes are of."""
    column = _section(spec, "audit").get("time")
    if column:
        return f"the time in their column {escape(str(column))}"
    example = "inlongmsg_time" if _section(spec, "decode").get("format") == "inlong-msg" else "COLUMN"
    return f"their message's time (msgTime, else its arrival; with <code>audit: {example}</code> their own)"


def is_read_back(spec: Mapping[str, Any]) -> bool:
    """True if `pytubemq pipeline dlq` shows the dead letters."""
    return _section(spec, "dead_letter").get("format", _READ_BACK[0]) in _READ_BACK


def _section(spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = spec.get(name)
    return value if isinstance(value, Mapping) else {}
