"""The adapter over prometheus_client, which renders readings in Prometheus's text format.

The invariant: nothing is kept between two scrapes; the output has what the readings have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from pytubemq.observe.histogram import Histogram
from pytubemq.observe.metrics import PREFIX, Kind, Reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prometheus_client import Metric as Family

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
_FIRST_CELL, _LAST_CELL = 7, 24
"""From 0.125 ms to 16.4 s, each bound twice the one before."""


def render(readings: Iterable[Reading]) -> bytes:
    """Return the readings in Prometheus's text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once([family(reading) for reading in readings]))
    return generate_latest(registry)


class _Once:
    """A collector of metrics that were read before."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families


def family(reading: Reading) -> Family:
    """Return a reading as prometheus_client keeps it."""
    metric, values = reading.metric, reading.values
    name = PREFIX + metric.name
    if isinstance(values, Histogram):
        buckets = [(f"{bound:.6g}", float(count)) for bound, count in values.below(_FIRST_CELL, _LAST_CELL)]
        return HistogramMetricFamily(
            name, metric.about, buckets=[*buckets, ("+Inf", float(values.count))], sum_value=values.sum_s
        )
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    found: CounterMetricFamily | GaugeMetricFamily = kind(name, metric.about, labels=metric.labels)
    for labels, value in values.items():
        found.add_metric(labels, value)
    return found
