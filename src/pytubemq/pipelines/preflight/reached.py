"""The clusters that a pipeline names, tried before Spark starts: one that is away is told without Spark's part in it.

The invariant: a cluster is given the time that the source gives it, so nothing is refused here that would have run.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from pytubemq.errors import TransportError, TubeError
from pytubemq.net.client.masters import parse_masters
from pytubemq.pipelines.file.secrets import resolve
from pytubemq.spark.source.read.cluster import Cluster

if TYPE_CHECKING:
    from pytubemq.model.ids import Address, Partition
    from pytubemq.pipelines.file.model import Pipeline


def check_reached(pipeline: Pipeline) -> None:
    """Connect to the Masters of each cluster that is read or written.

    Raises:
        TransportError: those of a cluster are away; the text names them.
    """
    for masters in _clusters(pipeline):
        cluster = Cluster(masters)
        try:
            cluster.retried(partial(_connected, cluster))
        except TransportError:
            raise
        except TubeError:
            continue  # somebody answers: what is wrong is told by who asks for more
        finally:
            cluster.forget()


def _connected(cluster: Cluster) -> dict[Partition, object]:
    cluster.tube()
    return {}


def _clusters(pipeline: Pipeline) -> list[tuple[Address, ...]]:
    """Each once; those whose addresses are none are left to who refuses them."""
    source, letters = pipeline.source, pipeline.dead_letter
    named = [source.master] if source.format == "tubemq" else []
    named += [sink.master or source.master for sink in pipeline.sinks if sink.format == "tubemq"]
    if letters is not None and letters.format == "tubemq":
        named.append(letters.master or source.master)
    found: dict[tuple[Address, ...], None] = {}
    for text in filter(None, named):
        with contextlib.suppress(TubeError):
            found[parse_masters(resolve(text))] = None
    return list(found)
