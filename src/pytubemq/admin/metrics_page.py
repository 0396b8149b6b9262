"""The tables of the documentation's page about figures, from the figures themselves.

The invariant: between its markers, the page says what the servers tell, no more and no less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytubemq.broker.metrics import BROKER_METRICS
from pytubemq.master.metrics import MASTER_METRICS
from pytubemq.observe.metrics import PREFIX
from pytubemq.observe.process import PROCESS_METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytubemq.observe.metrics import Source

TABLES: Mapping[str, Iterable[Source[Any]]] = {
    "process": PROCESS_METRICS,
    "broker": BROKER_METRICS,
    "master": MASTER_METRICS,
}


def table(sources: Iterable[Source[Any]]) -> str:
    """A row for each figure."""
    lines = ["| metric | kind | labels | |", "|---|---|---|---|"]
    for source in sources:
        metric = source.metric
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{PREFIX}{metric.name}` | {metric.kind.value} | {labels} | {metric.about} |")
    return "\n".join(lines)


def put(page: str) -> str:
    """The page with each table anew, between its `<!-- name -->` and the next `<!-- end -->`."""
    for name, sources in TABLES.items():
        before, start, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        if not start or not end:
            raise ValueError(f"the page has no place for the table {name}: <!-- {name} --> and <!-- end -->")
        page = f"{before}{start}\n{table(sources)}\n\n{end}{after}"
    return page
