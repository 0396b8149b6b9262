"""The tables of docs/reference/metrics.md, from the metrics themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.broker.metrics import BROKER_METRICS
from pytubemq.master.metrics import MASTER_METRICS
from pytubemq.observe.metrics import PREFIX
from pytubemq.observe.process import PROCESS_METRICS
from pytubemq.spark.observe.metrics import LAG_METRICS
from scripts.docs.markdown import table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytubemq.observe.metrics import Metric

METRICS: Mapping[str, Iterable[Metric]] = {
    "process": tuple(source.metric for source in PROCESS_METRICS),
    "broker": tuple(source.metric for source in BROKER_METRICS),
    "master": tuple(source.metric for source in MASTER_METRICS),
    "spark": LAG_METRICS,
}


def tables() -> dict[str, str]:
    """Return one table for each part of the system."""
    return {name: _table(metrics) for name, metrics in METRICS.items()}


def _table(metrics: Iterable[Metric]) -> str:
    rows = []
    for metric in metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        rows.append((f"`{PREFIX}{metric.name}`", metric.kind.value, labels, metric.about))
    return table(("metric", "kind", "labels", ""), rows)
