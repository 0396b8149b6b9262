"""The Spark source's way from a Broker to Arrow columns, without Spark: speed, and by a profile what takes the time."""

import cProfile
from collections.abc import Sequence
from zoneinfo import ZoneInfo

import pytubemq.sync
from bench.clients.window import Result, Spec, Window, report, spec
from pytubemq.model.cluster_address import ClusterAddress
from pytubemq.spark.source.planning.plan import OffsetRange
from pytubemq.spark.source.read.fetch import close_kept, fetched_batches
from pytubemq.spark.source.read.source_connection import Cluster
from pytubemq.spark.source.schema import COLUMNS

PARTS = {
    "socket": ("recv_into", "sendall"),
    "checksum": ("crc32",),
    "putting payloads together": ("'join'",),
    "Arrow": ("pyarrow", "_compute"),
}
UTC = ZoneInfo("UTC")


def read(cluster: Cluster, ranges: Sequence[OffsetRange]) -> int:
    """Every row of these ranges; how many there were."""
    return sum(
        batch.num_rows for wanted in ranges for batch in fetched_batches(cluster, wanted, COLUMNS, time_zone=UTC)
    )


def profiled(cluster: Cluster, ranges: Sequence[OffsetRange]) -> dict[str, float]:
    """Shares of the time in percent, by what it was spent on."""
    profile = cProfile.Profile()
    profile.runcall(read, cluster, ranges)
    spent = dict.fromkeys((*PARTS, "rest"), 0.0)
    for entry in profile.getstats():
        code = entry.code
        names = code if isinstance(code, str) else f"{code.co_filename} {code.co_name}"
        part = next((part for part, words in PARTS.items() if any(word in names for word in words)), "rest")
        spent[part] += entry.inlinetime
    whole = sum(spent.values())
    return {part: round(100 * own_s / whole, 1) for part, own_s in spent.items()}


def main(given: Spec) -> Result:
    """One reading that warms up and is profiled, one that is measured."""
    options = given["options"]
    with pytubemq.sync.connect(options["master"]) as tube:
        ends = tube.offsets(tube.partitions(options["topic"]))
    ranges = [OffsetRange(partition, *edges) for partition, edges in ends.items()]
    cluster = Cluster(ClusterAddress.parse(options["master"]))
    profile = profiled(cluster, ranges)
    window = Window(given.get("pids"))
    window.open(0)
    rows = read(cluster, ranges)
    found = window.close(rows)
    if rows != given["rows"]:
        raise SystemExit(f"{rows} rows came instead of {given['rows']}")
    close_kept()
    cluster.forget()
    return found | {"profile": profile}


if __name__ == "__main__":
    report(main(spec()))
