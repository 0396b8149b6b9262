"""The measures, one a file, each with a `MEASURE`: see `bench.harness.bench.Measure`."""

NAMES = (
    "single",
    "packs-1k",
    "packs-100",
    "one-in-flight",
    "durability",
    "consume",
    "many-topics",
    "create-topics",
    "latency",
    "memory",
    "restart",
    "stopped",
    "connections",
    "hostile",
    "workers",
    "tls",
)
"""In the order in which they are taken."""
