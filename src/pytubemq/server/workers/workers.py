"""Several Brokers on one machine, each a process of its own, kept running by one parent.

The invariants: all of them serve when `start` returns, or none runs and the reason is raised; one that dies is started
again at its addresses, after a pause that grows to RESTART_MOST_S; none outlives the parent, however that ends; `close`
ends within the bounds of `ServerProcess.close`, for all at once.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.core.retry import Backoff
from pytubemq.errors import ConfigError, TubeError
from pytubemq.server.processes import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytubemq.server.workers.worker_plan import Plan

logger = logging.getLogger(__name__)

RESTART_MOST_S: Final = 30.0
STABLE_S: Final = 60.0
"""The running time after which a worker that dies is restarted at once, as if it were the first time."""
_BACKOFF: Final = Backoff(first_s=0.5, most_s=RESTART_MOST_S)


@dataclass(slots=True, eq=False)
class Worker:
    """One Broker process."""

    name: str
    broker_id: int
    process: ServerProcess
    restarts: int = 0
    """The number of restarts."""
    down: str | None = None
    """The reason why it does not run now; None while it does."""

    def row(self) -> dict[str, object]:
        """Return the worker's entry in the ready line."""
        return {
            "name": self.name,
            "id": self.broker_id,
            **self.process.endpoints.as_dict(),
            "data": self.process.settings.data,
            "pid": self.process.pid,
        }


class Workers:
    """The parent of the worker processes."""

    def __init__(
        self, plans: Sequence[Plan], *, backoff: Backoff = _BACKOFF, rng: Callable[[], float] = random.random
    ) -> None:
        self.workers = [
            Worker(
                plan.name,
                plan.settings.broker.id,
                ServerProcess("broker", plan.settings, name=plan.name, shares_log=True),
            )
            for plan in plans
        ]
        self._backoff = backoff
        self._rng = rng
        self._keepers: list[asyncio.Task[None]] = []

    async def start(self) -> list[Worker]:
        """Start all of them.

        Raises:
            ConfigError: the Master refuses one, as where its id is another Broker's.
            TubeError: one did not start.
        """
        started = await asyncio.gather(*(worker.process.start() for worker in self.workers), return_exceptions=True)
        failures = [result for result in started if isinstance(result, BaseException)]
        refused = [worker for worker in self.workers if worker.process.refused_by_master]
        if failures or refused:
            await self.close()
        if failures:
            first, *others = failures
            for other in others:
                first.add_note(other.message if isinstance(other, TubeError) else str(other))
            raise first
        if refused:
            raise ConfigError(
                "\n".join(f"{worker.name}: {worker.process.refused_by_master}" for worker in refused),
                hint=f"the workers need {len(self.workers)} ids that no other Broker has, from broker.id = "
                f"{self.workers[0].broker_id} on; set another broker.id",
            )
        loop = asyncio.get_running_loop()
        self._keepers = [loop.create_task(self._keep(worker), name=worker.name) for worker in self.workers]
        return self.workers

    async def until_failed(self) -> TubeError:
        """Wait for ever: a worker that ends is started again."""
        await asyncio.Event().wait()
        raise AssertionError

    async def close(self) -> bool:
        """Stop all; return False when one had to be killed. Idempotent."""
        keepers, self._keepers = self._keepers, []
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)
        running = [worker for worker in self.workers if worker.process.running]
        await asyncio.gather(*(worker.process.close() for worker in self.workers))
        clean = True
        for worker in running:
            code = await worker.process.wait()
            if code:
                clean = False
                logger.error("%s did not stop cleanly: %s", worker.name, _ended_by(code))
        return clean

    async def _keep(self, worker: Worker) -> None:
        """Restart a worker whenever it ends."""
        loop = asyncio.get_running_loop()
        attempt = 0
        started_s = loop.time()
        while True:
            code = await worker.process.wait()
            attempt = 1 if loop.time() - started_s >= STABLE_S else attempt + 1
            reason = _ended_by(code)
            while True:
                pause_s = self._backoff.delay_s(attempt, self._rng)
                logger.error("%s (Broker %d) %s; it restarts in %.1f s", worker.name, worker.broker_id, reason, pause_s)
                self._is_down(worker, reason)
                await asyncio.sleep(pause_s)
                started_s = loop.time()
                worker.restarts += 1
                try:
                    await worker.process.restart()
                except (TubeError, OSError) as error:
                    attempt += 1
                    text = error.message if isinstance(error, TubeError) else f"did not start: {error}"
                    reason = text.removeprefix(f"{worker.name} ")
                else:
                    break
            logger.warning(
                "%s (Broker %d) runs again, as process %s", worker.name, worker.broker_id, worker.process.pid
            )
            self._is_down(worker, None)

    def _is_down(self, worker: Worker, reason: str | None) -> None:
        """Send the running workers the list of those that do not run, for the health of each."""
        worker.down = reason
        down = [f"{one.name} (Broker {one.broker_id}) {one.down}" for one in self.workers if one.down is not None]
        for one in self.workers:
            one.process.tell({"workers_down": [text for text in down if not text.startswith(f"{one.name} ")]})


def _ended_by(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
