"""Options of the source, and the keys that stand for one: as the source itself takes them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError
from pytubemq.pipelines.analysis.edges import is_time, read_edge
from pytubemq.pipelines.analysis.refused_options import refused_options
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.rules.rule import Need, rule
from pytubemq.spark.source.option_table import OPTIONS as SOURCE_OPTIONS
from pytubemq.spark.source.options import parse_options as parse_source_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.pipelines.file.model import Source
    from pytubemq.pipelines.rules.rule import Context, Faults

_ANYWHERE: Final = "127.0.0.1:8715"
_KEY_OF_SOURCE_OPTION: Final = {
    "master": "master", "user": "user", "secretfile": "secret_file", "topic": "topic",
    "topicpattern": "topic_pattern", "startingoffsets": "start",
    "startingtimestamp": "start", "endingoffsets": "end", "endingtimestamp": "end", "maxrowspertrigger": "limit.rows",
    "maxbytespertrigger": "limit.bytes", "minrowspertrigger": "limit.min_rows", "maxtriggerdelay": "limit.max_delay",
    "maxfetchtimepertask": "limit.fetch", "filters": "filters", "commitgroup": "commit_group",
    "failondataloss": "on_data_loss", "columns": "columns", "dedup": "dedup",
}  # fmt: skip


@rule(Need.FILE)
def check(context: Context) -> Faults:
    """Report options that the source refuses, in the words of the file where a key says it."""
    source = context.pipeline.source
    if source.format != "tubemq":
        return
    known = [option.name for option in SOURCE_OPTIONS if not option.name.startswith("decode")]
    lower = {name.lower() for name in known}
    passed: dict[str, str] = {}
    for name, value in source.options.items():
        path = f"source.options.{name}"
        if name.lower() in _KEY_OF_SOURCE_OPTION:
            hint = f"write it as the key source.{_KEY_OF_SOURCE_OPTION[name.lower()]}"
            yield context.fault(FaultCode.SOURCE_OPTION, path, "has a key of its own", hint, at_key=True)
        elif name.lower() == "decode" or name.lower().startswith("decode."):
            text, hint = "is for Spark programs", "in a pipeline file use the section decode"
            yield context.fault(FaultCode.SOURCE_OPTION, path, text, hint, at_key=True)
        elif name.lower() not in lower or "${" not in value:
            passed[name] = value
    wrong = _wrong_edges(source)
    for key, refused in wrong.items():
        yield context.fault(FaultCode.BAD_VALUE, f"source.{key}", refused.message, refused.hint)
    sound = {"start": source.start, "end": source.end} | dict.fromkeys(wrong, None)
    base = _base(replace(source, start=sound["start"], end=sound["end"]))

    def ask(options: Mapping[str, str]) -> None:
        parse_source_options(base | dict(options))

    for error, option in refused_options(ask, passed):
        path = f"source.options.{option}" if option is not None else _source_key(error)
        yield context.fault(FaultCode.SOURCE_OPTION, path, error.message, error.hint, at_key=option is not None)


def _wrong_edges(source: Source) -> dict[str, ConfigError]:
    """Return the errors of the keys that name one place to begin or end at."""
    wrong = {}
    for key, value in (("start", source.start), ("end", source.end)):
        if isinstance(value, str) and "${" not in value:
            try:
                read_edge(value)
            except ConfigError as error:
                wrong[key] = error
    return wrong


def _base(source: Source) -> dict[str, str]:
    """Translate the file's keys to options, where they hold no reference."""
    topics = ",".join(source.topics)
    known = re.fullmatch(r"[A-Za-z]\w*(,[A-Za-z]\w*)*", topics, re.ASCII) is not None
    base = {"master": _ANYWHERE, "topic": topics if known else "any"}
    for word, value in (("starting", source.start), ("ending", source.end)):
        if value is not None and not isinstance(value, str):
            if known:  # it names topics
                base[f"{word}Offsets"] = json.dumps(value)
        elif value is not None and "${" not in value:
            base[f"{word}{'Timestamp' if is_time(value) else 'Offsets'}"] = value
    plain = {
        "filters": ",".join(source.filters), "columns": ",".join(source.columns), "commitGroup": source.commit_group
    }  # fmt: skip
    return base | {name: value for name, value in plain.items() if value and "${" not in value}


def _source_key(error: ConfigError) -> str:
    words = re.findall(r"\w+", error.message.lower())
    key = next((_KEY_OF_SOURCE_OPTION[word] for word in words if word in _KEY_OF_SOURCE_OPTION), None)
    return "source" if key is None else f"source.{key}"
