"""A plan in words: the path of the rows from left to right, one line for each sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.model import INPUT
from pytubemq.pipelines.plan.planned import EXACTLY

if TYPE_CHECKING:
    from pytubemq.pipelines.plan.planned import Plan, PlannedSink


def plan_lines(plan: Plan) -> list[str]:
    """Return the plan as lines of text."""
    head = _head(plan)
    ends = [(_way(plan, sink), sink) for sink in plan.sinks]
    if plan.dead_letter is not None:
        ends.append((["rejects"], plan.dead_letter))
    lines = _graph(head, ends)
    lines += ["", *_parts(plan)]
    alike: dict[tuple[str, str, str], list[str]] = {}
    for sink in [*plan.sinks, *([plan.dead_letter] if plan.dead_letter else [])]:
        alike.setdefault((sink.guarantee, sink.why, sink.needs), []).append(sink.name)
    for (guarantee, why, needs), names in alike.items():
        lines.append(f"{', '.join(names)}: {guarantee}: {why}")
        if needs:
            lines.append(f"  needs {needs}" if guarantee == EXACTLY else f"  {needs}")
    return [*lines, *_changes(plan)]


def _head(plan: Plan) -> str:
    source = plan.source
    parts = []
    if source.partitions is not None:
        parts.append(_count(source.partitions, "partition"))
    if source.waiting is not None:
        parts.append(f"{source.waiting:,} waiting")
    if source.batches is not None:
        parts.append(_count(source.batches, "batch", "batches"))
    head = source.what if source.format == "tubemq" else f"{source.format} {source.what}"
    return f"{head} ({', '.join(parts)})" if parts else head


def _way(plan: Plan, sink: PlannedSink) -> list[str]:
    """Return the names of what rows pass on their way to a sink."""
    by_name = {step.name.lower(): step for step in plan.steps}
    way: list[str] = []
    name = sink.input.lower()
    while name in by_name and by_name[name].name not in way:
        step = by_name[name]
        way.insert(0, step.name)
        name = next((read.lower() for read in step.reads if read.lower() in by_name or read.lower() == INPUT), "")
    return [*([plan.decode] if plan.decode else []), *way]


def _graph(head: str, ends: list[tuple[list[str], PlannedSink]]) -> list[str]:
    width = max((len(_joined(way)) for way, _ in ends), default=0)
    lines = []
    for index, (way, sink) in enumerate(ends):
        left = head if index == 0 else " " * len(head)
        branch = "─" if len(ends) == 1 else "┬" if index == 0 else "└" if index == len(ends) - 1 else "├"
        path = f"{_joined(way)} {'─' * (width - len(_joined(way)) + 1)} " if width else ""
        lines.append(f"{left} {'─' if index == 0 else ' '}{branch}─ {path}{_end(sink)}")
    return lines


def _joined(way: list[str]) -> str:
    return " ─ ".join(way)


def _end(sink: PlannedSink) -> str:
    return f"{sink.name}  {sink.format}  {sink.target}  {sink.guarantee}"


def _parts(plan: Plan) -> list[str]:
    source = plan.source
    begin = f" from {source.start}" if source.start else ""
    lines = [
        f"reads   {source.what}{begin}" + (f", of {source.brokers}" if source.brokers else ""),
        f"runs    {plan.trigger}",
        *([f"batch   {plan.batch}"] if plan.batch else []),
        *([f"rejects {plan.rejects}"] if plan.rejects else []),
        f"spark   {plan.spark}",
        f"state   {plan.state}" + ("" if plan.ran_before else " (none yet)"),
    ]
    if plan.columns:
        lines.append(f"input   {plan.columns}")
    for step in plan.steps:
        kept = ", keeps state" if step.keeps_state else ""
        lines.append(f"step    {step.name} of {', '.join(step.reads) or 'nothing'}{kept}")
        if step.columns:
            lines.append(f"        {step.columns}")
    return lines


def _changes(plan: Plan) -> list[str]:
    if not plan.ran_before:
        return []
    last = "the current run began" if plan.running else "the last run"
    if not plan.changes:
        return [f"nothing changed since {last}"]
    lines = [f"changed since {last}:"]
    for change in plan.changes:
        note = f"   ({change.consequence})" if change.consequence else ""
        lines.append(f"  {change.path}: {_value(change.before)} -> {_value(change.after)}{note}")
    return lines


def _value(value: object) -> str:
    if value is None:
        return "nothing"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _count(number: int, noun: str, nouns: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"
