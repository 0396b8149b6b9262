"""The report of a run: one page of HTML that stands alone.

The invariants: nothing is loaded from anywhere and nothing runs (the page's own policy forbids both); every text that
comes from outside is escaped, and configuration is shown redacted.
"""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Any, Final

from pytubemq.spark.observe.lag import iso
from pytubemq.spark.pipeline.watch.plots import Series, bars, line, together
from pytubemq.spark.pipeline.watch.record import add, merged
from pytubemq.spark.pipeline.watch.redact import redacted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytubemq.spark.pipeline.run.events import BatchDone
    from pytubemq.spark.pipeline.watch.record import RunRecord

MOST_TABLE_ROWS: Final = 100
MOST_PARTS: Final = 7
"""Of a batch's time; the rest is drawn as `other`."""

_LIGHT: Final = ("#3b6fd4", "#d9822b", "#2e9e6b", "#b5468b", "#7a6ad8", "#b8a22a", "#3aa6b9", "#8a8f98")
_DARK: Final = ("#6f9bf0", "#f0a65a", "#5cc795", "#dd7db7", "#a597f2", "#dbc85a", "#6cccdc", "#a7adb8")


def page(record: RunRecord) -> str:
    """The whole page."""
    title = f"Pipeline {record.pipeline or '(no name)'}"
    status = escape(record.status.value)
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}: {status}</title><style>{_style()}</style></head><body><main>"
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


def _style() -> str:
    def palette(colours: Sequence[str]) -> str:
        return "".join(f"--c{number}:{colour};" for number, colour in enumerate(colours))

    numbers = range(len(_LIGHT))
    shapes = "".join(
        f".s{n}{{fill:var(--c{n})}}.l{n}{{stroke:var(--c{n})}}.b{n}{{background:var(--c{n})}}" for n in numbers
    )
    return (
        f":root{{color-scheme:light dark;--ink:#1c1f24;--soft:#5b626d;--line:#d9dde3;--page:#fff;{palette(_LIGHT)}}}"
        f"@media(prefers-color-scheme:dark){{:root{{--ink:#e8eaed;--soft:#a2a9b4;--line:#363b44;--page:#16191e;"
        f"{palette(_DARK)}}}}}"
        "body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}"
        "main{max-width:60rem;margin:0 auto;padding:1.5rem}h1{font-size:1.6rem;margin:0}"
        "h2{font-size:1.15rem;margin:2rem 0 .5rem}p{margin:.4rem 0}.soft,.axis,figcaption{color:var(--soft)}"
        ".state{font-size:.9rem;font-weight:600;padding:.1rem .5rem;border:1px solid currentColor;border-radius:1rem}"
        ".finished{color:var(--c2)}.failed{color:#d64545}.stopped{color:var(--c1)}.running{color:var(--c0)}"
        ".trouble{border-left:4px solid #d64545;padding:.3rem .8rem;white-space:pre-wrap}"
        "dl{display:flex;flex-wrap:wrap;gap:.5rem 2rem;margin:1rem 0}dt{color:var(--soft);font-size:.85rem}"
        "dd{margin:0;font-size:1.3rem;font-variant-numeric:tabular-nums}figure{margin:1rem 0}"
        "figcaption{font-size:.9rem}.key{margin-left:.8rem;white-space:nowrap}"
        ".key i{display:inline-block;width:.7rem;height:.7rem;margin-right:.3rem}svg{width:100%;height:auto}"
        ".grid{stroke:var(--line)}.axis{font-size:11px;fill:var(--soft)}path{fill:none;stroke-width:2}"
        f"{shapes}table{{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}}"
        "th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}"
        "th{color:var(--soft);font-weight:500}.n{text-align:right}.wide{overflow-x:auto}"
        "pre{overflow-x:auto;background:color-mix(in srgb,var(--line) 35%,transparent);padding:.8rem}"
    )


def _run_line(record: RunRecord) -> str:
    began = "" if record.began_s is None else f"started {iso(record.began_s)}"
    ended = "" if record.ended_s is None else f", ended {iso(record.ended_s)}"
    run = f", run {record.run_id[:8]}" if record.run_id else ""
    return f'<p class="soft">{escape(began + ended + run)}<br>state in {escape(record.state)}</p>'


def _trouble(record: RunRecord) -> str:
    if not record.message:
        return ""
    hint = f"\n{record.hint}" if record.hint else ""
    return f'<p class="trouble">{escape(str(redacted(record.message)) + str(redacted(hint)))}</p>'


def _figures(record: RunRecord) -> str:
    last = record.batches[-1] if record.batches else None
    lag = "not told" if last is None or last.lag_rows is None else f"{last.lag_rows:,}"
    figures = {
        "rows read": f"{record.rows_in:,}",
        "rejected": f"{record.rejected:,}",
        "batches": f"{record.batch_count:,}",
        "rows per second": f"{record.rows_per_s:,.0f}",
        "seconds": f"{record.seconds:,.1f}",
        "messages behind at the end": lag,
    }
    cells = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in figures.items())
    return f"<dl>{cells}</dl>"


def _plots(batches: Sequence[BatchDone]) -> str:
    if not batches:
        return "<h2>Batches</h2><p>No batch had rows.</p>"
    drawn = [merged(batches[n] for n in run) for run in together(len(batches))]
    places = [f"batch {batch.batch_id}" for batch in drawn]
    rate = Series("rows/s", [batch.rows_in / batch.seconds if batch.seconds > 0 else None for batch in drawn])
    lag_rows = Series("messages", [batch.lag_rows for batch in drawn])
    lag_s = Series("seconds", [batch.lag_s for batch in drawn])
    rejected = Series("rejected", [float(batch.rejected) for batch in drawn])
    note = f" (each point is up to {-(-len(batches) // len(drawn))} batches)" if len(drawn) < len(batches) else ""
    return "".join(
        [
            f'<h2>Batches</h2><p class="soft">{len(batches):,} with rows{note}</p>',
            bars("Rows per second", places, [rate], show=_whole),
            bars("Where the time of a batch went", places, _parts(drawn), show=_seconds),
            line("Messages behind", places, [lag_rows], show=_whole),
            line("Seconds behind", places, [lag_s], show=_seconds),
            bars("Rejected records", places, [rejected], show=_whole),
        ]
    )


def _seconds(value: float) -> str:
    return f"{value:,.3g} s"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _parts(drawn: Sequence[BatchDone]) -> list[Series]:
    split = [_apart(batch.parts) for batch in drawn]
    sums: dict[str, float] = {}
    for parts in split:
        add(sums, parts)
    named = sorted(sums, key=lambda name: -sums[name])[:MOST_PARTS]
    series = [Series(name, [parts.get(name, 0.0) for parts in split]) for name in named]
    rest = [max(0.0, batch.seconds - sum(parts.get(name, 0.0) for name in named))
            for batch, parts in zip(drawn, split, strict=True)]  # fmt: skip
    return [*series, Series("other", rest)]


def _apart(parts: Mapping[str, float]) -> dict[str, float]:
    """Parts that do not contain each other: Spark's `addBatch` is the time in which we read and write."""
    ours = {name: taken_s for name, taken_s in parts.items() if name == "read" or name.startswith("sink:")}
    inside = parts.get("addBatch", 0.0) - sum(ours.values())
    others = {name: taken_s for name, taken_s in parts.items() if name != "addBatch"}
    return others | {"steps and ledger": max(0.0, inside)}


def _sinks(record: RunRecord) -> str:
    names = list(dict.fromkeys([*record.sinks, *record.rows_out, *(name for name, _, _ in record.guarantees)]))
    if not names:
        return ""
    promised = {name: (guarantee, why) for name, guarantee, why in record.guarantees}
    rows = [[name, f"{record.rows_out.get(name, 0):,}", *promised.get(name, ("", ""))] for name in names]
    return "<h2>Sinks</h2>" + _table(["sink", "rows", "guarantee", "why"], rows, numbers={1})


def _reasons(record: RunRecord) -> str:
    if not record.reasons:
        return ""
    ordered = sorted(record.reasons.items(), key=lambda pair: -pair[1])[:MOST_TABLE_ROWS]
    rows = [[reason, f"{count:,}"] for reason, count in ordered]
    return "<h2>Rejected records by reason</h2>" + _table(["reason", "records"], rows, numbers={1})


def _audit(record: RunRecord) -> str:
    if not record.audit:
        return ""
    sinks = sorted({sink for row in record.audit for sink in row["written"]})
    rows = [
        [
            row["stream"], row["minute"], f"{row['read']:,}", f"{row['rejected']:,}",
            *(f"{row['written'].get(sink, 0):,}" for sink in sinks),
        ]
        for row in record.audit[-MOST_TABLE_ROWS:]
    ]  # fmt: skip
    left = len(record.audit) - len(rows)
    note = f'<p class="soft">{left:,} earlier minutes are left out.</p>' if left else ""
    heads = ["stream", "minute", "read", "rejected", *sinks]
    return (
        '<h2>Audit</h2><p class="soft">Records by stream and minute of their own time, over the batches that the '
        f"ledger still has.</p>{_table(heads, rows, numbers=set(range(2, len(heads))))}{note}"
    )


def _batches(batches: Sequence[BatchDone]) -> str:
    if not batches:
        return ""
    rows = [
        [
            str(batch.batch_id), batch.query, iso(batch.at_s) if batch.at_s else "", f"{batch.rows_in:,}",
            f"{batch.rejected:,}", f"{batch.seconds:,.2f}", "" if batch.lag_rows is None else f"{batch.lag_rows:,}",
            ", ".join(batch.replayed),
        ]
        for batch in batches[-MOST_TABLE_ROWS:]
    ]  # fmt: skip
    heads = ["batch", "query", "ended", "rows", "rejected", "seconds", "behind", "already done in"]
    return f"<h2>Last batches</h2>{_table(heads, rows, numbers={3, 4, 5, 6})}"


def _configuration(record: RunRecord) -> str:
    if not record.spec:
        return ""
    text = json.dumps(redacted(dict(record.spec)), indent=2, ensure_ascii=False, default=str)
    return f"<h2>Configuration</h2><pre>{escape(text)}</pre>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[Any]], *, numbers: set[int]) -> str:
    def cells(tag: str, values: Sequence[Any]) -> str:
        return "".join(
            f"<{tag}{' class=n' if at in numbers else ''}>{escape(str(value))}</{tag}>"
            for at, value in enumerate(values)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{cells("th", heads)}</tr></thead><tbody>{body}</tbody></table></div>'
