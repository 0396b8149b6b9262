"""Explanation why a member of a group gets nothing: printed once it had no partition for a while, an error at the end.

The invariant: while messages may still come it only prints, and a failed check never disturbs the consumer.
The command that it recommends works also after this member has left and the group is unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeAlias

from pytubemq.cli.api import Api
from pytubemq.errors import Code, NotAllowedError, TubeError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from pytubemq.cli.options import GlobalOptions

QUIET_S = 5.0
"""The time that a new member may take to get its first partitions."""
ASKING_S = 3.0


Silent: TypeAlias = "Callable[[], Awaitable[tuple[list[str], int]]]"


class Why:
    """Explains why one member gets nothing.

    `http` is the address of the JSON API, None if it was not given; `where` are the options by which a recommended
    command finds the same cluster.
    """

    def __init__(
        self,
        options: GlobalOptions,
        group: str,
        topic: str,
        http: str | None,
        *,
        where: str = "",
        quiet_s: float = QUIET_S,
    ) -> None:
        self.group = group
        self._topic = topic
        self._options = options
        self._http = http
        self._where = where
        self._quiet_s = quiet_s

    @contextlib.asynccontextmanager
    async def watching(
        self, holds: Callable[[], bool], silent: Silent, master_answers: Callable[[], Awaitable[bool]] | None = None
    ) -> AsyncIterator[None]:
        """Watch for as long as the block lasts.

        Args:
            holds: returns True if there is a partition, or messages came already.
            silent: returns the Brokers that do not respond, and their number in all.
            master_answers: reports it if no Master responds, which is reason enough.
        """
        task = asyncio.create_task(self._watch(holds, silent, master_answers))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _watch(
        self, holds: Callable[[], bool], silent: Silent, master_answers: Callable[[], Awaitable[bool]] | None
    ) -> None:
        await asyncio.sleep(self._quiet_s)
        if holds() or (master_answers is not None and not await master_answers()):
            return
        found = await asyncio.to_thread(self._ask)
        names, _ = await silent()
        if holds():
            return
        away = "".join(f"; {name} does not respond" for name in names)
        self._options.say(f"nothing yet: this member of {self.group} holds no partition{reason(found)}{away}")
        self._options.say(f"  check   {self._options.next(self._command)}")

    @property
    def _command(self) -> str:
        return f"pytubemq group show {self.group} --topic {self._topic}{self._where}"

    async def check(self, *, nothing_came: bool) -> None:
        """Raise the reason when a member ends without a partition.

        Raises:
            NotAllowedError: the topic is closed for its group. UnavailableError: nothing came, and the Master does not
                report that others hold the partitions.
        """
        found = await asyncio.to_thread(self._ask)
        for one in found.get("closed") or ():
            if one["topic"] == self._topic:
                raise NotAllowedError(
                    f"{self._topic} is closed for group {self.group}: {one['why']}",
                    hint=self._command,
                    code=Code.CONSUME_GROUP_FORBIDDEN,
                )
        held = any(line.get("holder") for line in found.get("lag") or ())
        if nothing_came and not held:
            raise UnavailableError(
                f"this member of {self.group} was given no partition of {self._topic}{reason(found)}",
                hint=self._command,
                code=Code.SERVICE_UNAVAILABLE,
            )

    def _ask(self) -> dict[str, Any]:
        if self._http is None:
            return {}
        try:
            found = Api(self._http, timeout_s=ASKING_S).get("groups", self.group, query={"topic": self._topic})
        except TubeError:
            return {}
        return found if isinstance(found, dict) else {}


def reason(group: dict[str, Any]) -> str:
    """Return the Master's reason, as the end of a sentence; blank if it gives none."""
    why = group.get("why")
    return f"; {why}" if why else ""
