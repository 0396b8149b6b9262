"""The report of a run: one page of HTML that stands alone.

The invariants: nothing is loaded from anywhere and nothing runs (the page's own policy forbids both); every text that
comes from outside is escaped, and configuration is shown redacted.
"""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError
from pytubemq.pipelines.events import MAIN
from pytubemq.pipelines.file.model import OnError
from pytubemq.pipelines.report.configuration import (
    as_yaml,
    audit_time,
    dead_letter_place,
    defaults_in_force,
    is_read_back,
    on_error,
)
from pytubemq.pipelines.report.page_style import style
from pytubemq.pipelines.report.plots import Scale, Series, bars, line, nothing, together
from pytubemq.pipelines.report.record import add, merged
from pytubemq.pipelines.report.redact import redact

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pytubemq.pipelines.events import BatchDone
    from pytubemq.pipelines.report.record import RunRecord

MOST_TABLE_ROWS: Final = 100
SINK: Final = "sink:"
"""Before the name of a sink, in the name of a batch's part."""
MOST_PARTS: Final = 7
"""Of a batch's time; the rest is drawn as `other`."""

_PARTS: Final = {
    "read": "reading",
    "latestOffset": "asking for the newest offsets",
    "getOffset": "asking for the newest offsets",
    "getBatch": "naming the ranges to read",
    "queryPlanning": "planning",
    "walCommit": "recording the range",
    "commitBatch": "recording the end of the batch",
    "commitOffsets": "recording the end of the batch",
}
"""Spark's names of a batch's parts, in words."""


def write_report(record: RunRecord, out: Path) -> Path:
    """Write the page.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page(record), "utf-8")
    except OSError as error:
        raise ConfigError(
            f"the report {out} cannot be written: {error.strerror}", hint="name another file for it"
        ) from error
    return out


def page(record: RunRecord) -> str:
    """Render the whole page."""
    title = f"Pipeline {record.pipeline or '(no name)'}"
    status = escape(record.status.value)
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}: {status}</title><style>{style()}</style></head><body><main>"
    )
    parts = [
        head,
        f'<h1>{escape(title)} <span class="state {status}">{status}</span></h1>',
        _run_line(record),
        _trouble(record),
        _figures(record),
        _plots(record.batches),
        _sinks(record),
        _reasons(record),
        _audit(record),
        _batches(record.batches),
        _configuration(record),
        "</main></body></html>\n",
    ]
    return "\n".join(part for part in parts if part)


def _run_line(record: RunRecord) -> str:
    parts = []
    if record.began_s is not None:
        ended = "" if record.ended_s is None else f" to {_moment(record.ended_s, record.began_s)}"
        parts.append(f"{_moment(record.began_s)}{ended} UTC")
    if record.run_id:
        parts.append(f"run {record.run_id[:8]}")
    return f'<p class="soft">{escape(", ".join(parts))}<br>state in {escape(record.state)}</p>'


def _moment(time_s: float, since_s: float | None = None) -> str:
    """Format a time in UTC to the second, without the date if it is of the same day as `since_s`."""
    at = datetime.fromtimestamp(time_s, UTC)
    if since_s is not None and datetime.fromtimestamp(since_s, UTC).date() == at.date():
        return f"{at:%H:%M:%S}"
    return f"{at:%Y-%m-%d %H:%M:%S}"


def _trouble(record: RunRecord) -> str:
    if not record.message:
        return ""
    hint = f"\n{record.hint}" if record.hint else ""
    return f'<p class="trouble">{escape(str(redact(record.message)) + str(redact(hint)))}</p>'


def _figures(record: RunRecord) -> str:
    last = record.batches[-1] if record.batches else None
    lag = "unknown" if last is None or last.lag_rows is None else f"{last.lag_rows:,}"
    figures = {
        "rows read": f"{record.rows_in:,}",
        "rejected": f"{record.rejected:,}",
        "batches": f"{record.batch_count:,}",
        "rows per second": f"{record.rows_per_s:,.0f}",
        "took": _took(record.seconds),
        "messages behind": lag,
    }
    if record.began_s is not None and record.ready_s is not None:
        figures["Spark start-up"] = _took(max(0.0, record.ready_s - record.began_s))
    names = ["rows read", "rejected", "messages behind", "batches", "rows per second", "took", "Spark start-up"]
    cells = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(figures[name])}</dd></div>" for name in names if name in figures
    )
    return f"<dl>{cells}</dl>"


def _took(seconds: float) -> str:
    """Return a duration as text, less exact the longer it is."""
    if seconds < 120:
        return f"{seconds:,.1f} s"
    whole = round(seconds)
    if whole < 7_200:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3_600:,} h {whole % 3_600 // 60} min"


def _plots(batches: Sequence[BatchDone]) -> str:
    if not batches:
        return "<h2>Batches</h2><p>No batch had rows.</p>"
    drawn = [merged(batches[n] for n in run) for run in together(len(batches))]
    places = [f"batch {batch.batch_id}" for batch in drawn]
    rate = Series("rows/s", [batch.rows_in / batch.seconds if batch.seconds > 0 else None for batch in drawn])
    rejected = Series("rejected", [float(batch.rejected) for batch in drawn])
    note = f" (each point is up to {-(-len(batches) // len(drawn))} batches)" if len(drawn) < len(batches) else ""
    return "".join(
        [
            f'<h2>Batches</h2><p class="soft">{_batches_with_rows(len(batches))}{note}</p>',
            bars("Rows per second", places, [rate], Scale(_rate)),
            bars("Time of a batch by phase", places, _parts(drawn), Scale(_seconds)),
            _lag(drawn, places),
            bars("Rejected records", places, [rejected], Scale(_whole, whole=True, zero="none")),
        ]
    )


def _batches_with_rows(number: int) -> str:
    return "1 batch with rows" if number == 1 else f"{number:,} batches with rows"


def _lag(drawn: Sequence[BatchDone], places: Sequence[str]) -> str:
    with_lag = [batch for batch in drawn if batch.lag_rows is not None]
    if len(with_lag) == len(drawn) and not any(batch.lag_rows for batch in with_lag):
        return nothing("Messages behind", "none; no batch left messages waiting")
    rows = Series("messages", [batch.lag_rows for batch in drawn])
    age = Series("seconds", [batch.lag_s for batch in drawn])
    return line("Messages behind", places, [rows], Scale(_whole, whole=True, zero="none")) + line(
        "Seconds behind", places, [age], Scale(_seconds, zero="none")
    )


def _seconds(value: float) -> str:
    return f"{_rate(value)} s"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _parts(drawn: Sequence[BatchDone]) -> list[Series]:
    split = [_apart(batch.parts) for batch in drawn]
    sums: dict[str, float] = {}
    for parts in split:
        add(sums, parts)
    named = sorted((name for name in sums if sums[name] > 0), key=lambda name: -sums[name])[:MOST_PARTS]
    series = [Series(name, [parts.get(name, 0.0) for parts in split]) for name in named]
    rest = [max(0.0, batch.seconds - sum(parts.get(name, 0.0) for name in named))
            for batch, parts in zip(drawn, split, strict=True)]  # fmt: skip
    return [*series, Series("other", rest)]


def _apart(parts: Mapping[str, float]) -> dict[str, float]:
    """Return parts that do not contain each other, in words; Spark's `addBatch` contains our reading and writing."""
    ours = {name: taken_s for name, taken_s in parts.items() if name == "read" or name.startswith(SINK)}
    inside = parts.get("addBatch", 0.0) - sum(ours.values())
    found = {"steps and ledger": max(0.0, inside)}
    for name, taken_s in parts.items():
        if name != "addBatch":
            add(found, {_in_words(name): taken_s})
    return found


def _in_words(part: str) -> str:
    return f"writing {part.removeprefix(SINK)}" if part.startswith(SINK) else _PARTS.get(part, part)


def _sinks(record: RunRecord) -> str:
    names = list(dict.fromkeys([*record.sinks, *record.rows_out, *(name for name, _, _ in record.guarantees)]))
    if not names:
        return ""
    promised = {name: (guarantee, why) for name, guarantee, why in record.guarantees}
    rows, below = [], []
    for name in names:
        guarantee, why = promised.get(name, ("", ""))
        rows.append([name, f"{record.rows_out.get(name, 0):,}", guarantee])
        below.append(why)
    return "<h2>Sinks</h2>" + _table(["sink", "rows", "guarantee"], rows, numbers={1}, below=below)


def _reasons(record: RunRecord) -> str:
    if not record.reasons:
        return ""
    ordered = sorted(record.reasons.items(), key=lambda pair: -pair[1])[:MOST_TABLE_ROWS]
    rows = [[reason, f"{count:,}"] for reason, count in ordered]
    examples = [str(redact(record.examples.get(reason, ""))) for reason, _ in ordered]
    below = [f"example: {example}" if example else "" for example in examples]
    return (
        "<h2>Rejected records by reason</h2>"
        + _table(["reason", "records"], rows, numbers={1}, below=below)
        + _where_rejected(record)
    )


def _where_rejected(record: RunRecord) -> str:
    if not record.spec:
        return ""
    if on_error(record.spec) != OnError.DEAD_LETTER.value:
        return "<p>They were dropped, as decode.on_error says.</p>"
    place = escape(dead_letter_place(record.spec, record.state))
    look = f"<br>See them:  <code>{escape(record.look)}</code>" if record.look and is_read_back(record.spec) else ""
    return f"<p>They are stored in {place}{look}</p>"


def _audit(record: RunRecord) -> str:
    if not record.audit:
        return ""
    sinks = sorted({sink for row in record.audit for sink in row["written"]})
    rows = [
        [
            row["stream"], row["minute"].replace("T", " "), f"{row['read']:,}", f"{row['rejected']:,}",
            *(f"{row['written'].get(sink, 0):,}" for sink in sinks),
        ]
        for row in record.audit[-MOST_TABLE_ROWS:]
    ]  # fmt: skip
    left = len(record.audit) - len(rows)
    note = f'<p class="soft">{left:,} earlier minutes are not shown.</p>' if left else ""
    heads = ["stream", "minute", "read", "rejected", *sinks]
    table = _table(heads, rows, numbers=set(range(2, len(heads))))
    return (
        f'<h2>Audit</h2><p class="soft">Records by stream and minute of {audit_time(record.spec)}, for the batches '
        f"that are still in the ledger.</p>{table}{note}"
    )


def _batches(batches: Sequence[BatchDone]) -> str:
    """Return the table of the last batches, without empty columns."""
    shown = batches[-MOST_TABLE_ROWS:]
    if not shown:
        return ""
    first_s = shown[0].at_s
    columns: list[tuple[str, bool, list[str]]] = [
        ("batch", False, [str(batch.batch_id) for batch in shown]),
        ("query", False, ["" if batch.query == MAIN else batch.query for batch in shown]),
        ("ended", False, [_moment(batch.at_s, first_s) if batch.at_s else "" for batch in shown]),
        ("rows", True, [f"{batch.rows_in:,}" for batch in shown]),
        ("rejected", True, [f"{batch.rejected:,}" if batch.rejected else "" for batch in shown]),
        ("seconds", True, [f"{batch.seconds:,.2f}" for batch in shown]),
        ("behind", True, ["" if batch.lag_rows is None else f"{batch.lag_rows:,}" for batch in shown]),
        ("written before", False, [", ".join(batch.replayed) for batch in shown]),
    ]
    kept = [column for column in columns if any(column[2])]
    rows = list(zip(*(values for _, _, values in kept), strict=True))
    numbers = {at for at, (_, number, _) in enumerate(kept) if number}
    day = f'<p class="soft">Times are UTC, of {_moment(first_s)[:10]}.</p>' if first_s else ""
    before = ""
    if any(batch.replayed for batch in shown):
        before = (
            '<p class="soft">Written before: sinks to which an earlier run, which was killed, had written '
            "the batch.</p>"
        )
    return f"<h2>Last batches</h2>{day}{before}{_table([head for head, _, _ in kept], rows, numbers=numbers)}"


def _configuration(record: RunRecord) -> str:
    if not record.spec:
        return ""
    unsaid = defaults_in_force(record.spec)
    rows = [[name, value] for name, value in unsaid.items()]
    said = "<p>Keys with default values, written in the file or not:</p>"
    rest = f"{said}{_table(['key', 'value'], rows, numbers=set())}" if rows else ""
    return f"<h2>Configuration</h2><pre>{escape(as_yaml(record.spec))}</pre>{rest}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[Any]], *, numbers: set[int], below: Sequence[str] = ()) -> str:
    """Return a table; below each row goes the sentence of `below`, if there is one."""

    def cells(tag: str, values: Sequence[Any]) -> str:
        return "".join(
            f"<{tag}{' class=n' if at in numbers else ''}>{escape(str(value))}</{tag}>"
            for at, value in enumerate(values)
        )

    body = ""
    for at, row in enumerate(rows):
        said = below[at] if at < len(below) else ""
        more = f'<tr class="why"><td colspan="{len(heads)}">{escape(said)}</td></tr>' if said else ""
        body += f"<tr{' class=over' if said else ''}>{cells('td', row)}</tr>{more}"
    return f'<div class="wide"><table><thead><tr>{cells("th", heads)}</tr></thead><tbody>{body}</tbody></table></div>'
