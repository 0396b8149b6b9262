"""Throughput over TLS beside plain: the same servers, the same load, at the one port and at the other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bench.harness.decisions import Row
from bench.measures.common import KIB, cores, failures, notes, our_consumer, our_producer, rate, runs
from pytubemq.server.trial_certificates import key_of, make_trial_certificates

if TYPE_CHECKING:
    from bench.harness.bench import Bench

MESSAGES, QUICK_MESSAGES = 1_000_000, 200_000
"""Read by each consumer."""


class Tls:
    """One cluster with both ports; the clients of each side differ in the address alone."""

    name = "tls"
    title = "TLS beside plain"
    limit_s = 600.0

    async def run(self, bench: Bench) -> list[Row]:
        """Shown without a target: what it costs depends on the processor's instructions for AES."""
        files = await asyncio.to_thread(make_trial_certificates, bench.home / bench.fresh("certs"))
        settings: dict[str, object] = {
            "tls.cert": str(files.server),
            "tls.key": str(key_of(files.server)),
            "master.tls_port": 0,
            "broker.tls_port": 0,
        }
        messages = QUICK_MESSAGES if bench.options.quick else MESSAGES
        async with bench.own(settings) as cluster:
            address = f"tls://{cluster.master_process.endpoints.master_tls}?ca={files.ca}"
            await cluster.create(["read"])
            await bench.our_client("ours_fill", cluster, {"topics": ["read"], "size_bytes": KIB, "messages": messages})
            found = await bench.take(
                {
                    "plain submit_many": our_producer(bench, cluster, "many", KIB),
                    "tls submit_many": our_producer(bench, cluster, "many", KIB, master=address),
                    "plain single": our_producer(bench, cluster, "single", KIB),
                    "tls single": our_producer(bench, cluster, "single", KIB, master=address),
                    "plain consume": our_consumer(bench, cluster, "read", messages),
                    "tls consume": our_consumer(bench, cluster, "read", messages, master=address),
                }
            )
        note = notes(cores(found), failures(found))
        return [
            Row(
                self.name, f"1 KiB, {way}: TLS : plain", "msg/s", rate(found[f"tls {way}"]),
                rate(found[f"plain {way}"]), None, note if way == "submit_many" else "",
                runs(found) if way == "submit_many" else {},
            )
            for way in ("submit_many", "single", "consume")
        ]  # fmt: skip


MEASURE = Tls()
