"""Clusters that the file names: a Master of each answers.

A cluster is given the time that the source gives it, so nothing is refused that would have run.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from pytubemq.errors import TransportError, TubeError
from pytubemq.pipelines.file.cluster_keys import address_of
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import ClusterKeys
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from pytubemq.model.cluster_address import ClusterAddress
    from pytubemq.model.ids import Partition
    from pytubemq.pipelines.rules.rule import Context, Faults
    from pytubemq.spark.source.read.source_connection import Cluster


@rule(Need.VALUES | Need.CLUSTER)
def check(context: Context) -> Faults:
    """Report clusters to read from or write to that cannot be reached."""
    from pytubemq.spark.source.read.source_connection import Cluster

    for masters, path in _clusters(context).items():
        cluster = Cluster(masters)
        try:
            cluster.retried(partial(_connected, cluster))
        except TransportError as error:
            yield context.fault(FaultCode.CLUSTER_AWAY, path, error.message, error.hint, cause=error)
        except TubeError:
            continue  # somebody answers: what is wrong is reported by who asks for more
        finally:
            cluster.forget()


def _connected(cluster: Cluster) -> dict[Partition, object]:
    cluster.tube()
    return {}


def _clusters(context: Context) -> dict[ClusterAddress, str]:
    """Return each cluster once, with the first key that names it; malformed addresses are left to another rule."""
    source, letters = context.pipeline.source, context.pipeline.dead_letter
    named: dict[str, ClusterKeys] = {}
    if source.format == "tubemq":
        named["source.master"] = ClusterKeys(source.master, source.user, source.secret_file)
    for index, sink in enumerate(context.pipeline.sinks):
        if sink.format == "tubemq":
            named[f"sinks[{index}].master"] = context.pipeline.cluster_of(sink)
    if letters is not None and letters.format == "tubemq":
        named["dead_letter.master"] = context.pipeline.cluster_of(letters)
    found: dict[ClusterAddress, str] = {}
    for path, keys in named.items():
        with contextlib.suppress(TubeError):
            if keys.master:
                found.setdefault(address_of(keys), path)
    return found
