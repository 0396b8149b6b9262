"""A process that leads and writes: `python -m tests.scenario.election.holder URL PASSWORD LEASE_S`.

It prints `leads EPOCH`, then waits for a line, and then says whether it leads and what becomes of a write.
"""

from __future__ import annotations

import asyncio
import sys

from pytubemq.core.database.store_options import store_options
from pytubemq.errors import TubeError
from pytubemq.master.leader.candidacy import make_elector
from pytubemq.model.records import GroupRecord
from pytubemq.net.clock import SystemClock
from pytubemq.storage.metastore.opening import open_database


async def main(url: str, password: str, lease_s: str) -> None:
    options = store_options(url, password)
    store = open_database(options)
    elector = await make_elector(options, "the holder", lease_s=float(lease_s), clock=SystemClock())
    epoch = await elector.lead()
    store.lead(epoch)
    store.load()
    print("leads", epoch, flush=True)
    # Blocking, so that the loop stands still, too: what it says then is the elector's own clock alone.
    sys.stdin.readline()
    print("leads still" if elector.leads else "leads no more", flush=True)
    try:
        store.apply([GroupRecord("of the old leader")], [])
        print("wrote", flush=True)
    except TubeError as error:
        print(type(error).__name__, flush=True)
    print("lost:", await elector.until_lost(), flush=True)
    await elector.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
