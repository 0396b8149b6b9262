"""Why a member of a group gets nothing, said once it has held no partition for a while.

The invariant: it only talks. Whatever it cannot find out takes nothing from who consumes.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeAlias

from pytubemq.cli.api import Api
from pytubemq.cli.words import count_of
from pytubemq.errors import TubeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from pytubemq.cli.options import GlobalOptions

QUIET_S = 5.0
"""So long a new member may take to get its first partitions."""
ASKING_S = 3.0


Silent: TypeAlias = "Callable[[], Awaitable[tuple[list[str], int]]]"


class Why:
    """Tells of one member; `http` is where the JSON API is, None where nobody said so."""

    def __init__(self, options: GlobalOptions, group: str, http: str | None, *, quiet_s: float = QUIET_S) -> None:
        self.group = group
        self._options = options
        self._http = http
        self._quiet_s = quiet_s

    @contextlib.asynccontextmanager
    async def watching(self, holds: Callable[[], bool], silent: Silent) -> AsyncIterator[None]:
        """Watch for as long as the block lasts.

        Args:
            holds: tells whether there is a partition.
            silent: names the Brokers that do not answer, and says how many there are.
        """
        task = asyncio.create_task(self._watch(holds, silent))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _watch(self, holds: Callable[[], bool], silent: Silent) -> None:
        await asyncio.sleep(self._quiet_s)
        if holds():
            return
        found = await asyncio.to_thread(self._ask)
        names, _ = await silent()
        if holds():
            return
        away = "".join(f"; {name} does not answer" for name in names)
        self._options.say(f"nothing yet: this member of {self.group} holds no partition{reason(found)}{away}")
        self._options.say(f"  see   {self._options.next(f'pytubemq group show {self.group}')}")

    def _ask(self) -> dict[str, Any]:
        if self._http is None:
            return {}
        try:
            found = Api(self._http, timeout_s=ASKING_S).get("groups", self.group)
        except TubeError:
            return {}
        return found if isinstance(found, dict) else {}


def reason(group: dict[str, Any]) -> str:
    """What the Master says about it, as the end of a sentence; blank when it says nothing."""
    if closed := group.get("closed"):
        return "".join(f"; {one['topic']} is closed for it: {one['why']}" for one in closed)
    members, partitions = group.get("members") or 0, len(group.get("lag") or ())
    if members > partitions > 0:
        return f"; the group has {count_of(members, 'member')} and its topics {count_of(partitions, 'partition')}"
    return ""
