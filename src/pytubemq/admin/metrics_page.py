"""The tables of the documentation's page about figures, from the figures themselves.

The invariant: between its markers, the page says what the servers tell, no more and no less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.broker.metrics import BROKER_METRICS
from pytubemq.master.metrics import MASTER_METRICS
from pytubemq.observe.metrics import PREFIX
from pytubemq.observe.process import PROCESS_METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytubemq.observe.metrics import Metric

TABLES: Mapping[str, Iterable[Metric]] = {
    "process": tuple(source.metric for source in PROCESS_METRICS),
    "broker": tuple(source.metric for source in BROKER_METRICS),
    "master": tuple(source.metric for source in MASTER_METRICS),
}


def table(metrics: Iterable[Metric]) -> str:
    """A row for each figure."""
    lines = ["| metric | kind | labels | |", "|---|---|---|---|"]
    for metric in metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{PREFIX}{metric.name}` | {metric.kind.value} | {labels} | {metric.about} |")
    return "\n".join(lines)


def put(page: str, tables: Mapping[str, Iterable[Metric]] = TABLES) -> str:
    """The page with each table anew, between its `<!-- name -->` and the next `<!-- end -->`."""
    for name, metrics in tables.items():
        before, start, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        if not start or not end:
            raise ValueError(f"the page has no place for the table {name}: <!-- {name} --> and <!-- end -->")
        page = f"{before}{start}\n{table(metrics)}\n\n{end}{after}"
    return page
