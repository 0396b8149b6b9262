"""The resets of groups' positions: who moved which group, when, from where to where.

The invariants: the file has whole records only, since it is replaced in one step; it never has more than
`MAX_RESET_RECORDS`. Beyond that the oldest of the host, then the group, with most records goes, so that a flood of
resets does not push out those of others. A record that cannot be written now is written with the next one: the move
itself is durable elsewhere, so a full disk does not undo it. A file that cannot be read does not stop a Broker: it is
renamed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from itertools import count, islice
from typing import TYPE_CHECKING, Final

import msgspec

from pytubemq.core.key_counts import KeyCounts
from pytubemq.errors import CorruptError, FormatError, NewerVersionError
from pytubemq.model.limits import MAX_RESET_RECORDS
from pytubemq.storage.disk.damaged_file import rename_damaged
from pytubemq.storage.disk.sealed_file import read_whole, replace_whole, seal, unseal

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk

logger = logging.getLogger(__name__)

_VERSION: Final = 2
_UNCHECKED_VERSION: Final = 1
"""The version of files without a checksum, as earlier programs wrote them."""
FILE: Final = "resets.jsonl"


class _Header(msgspec.Struct, frozen=True):
    version: int


class Reset(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One position that was moved; `asked` is the target as text. `old_offset` None: the group had none there."""

    time_ms: int
    user: str
    group: str
    topic: str
    partition_id: int
    asked: str
    new_offset: int
    old_offset: int | None = None
    host: str = ""
    """The address that requested it; empty over HTTP."""


class ResetHistory:
    """The newest resets. Event loop only, but for `open`, which blocks."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        self._records: dict[int, Reset] = {}
        """The records by number, the oldest first."""
        self._numbers = count()
        self._hosts: KeyCounts[str] = KeyCounts()
        """Number of records by host."""
        self._groups: dict[str, KeyCounts[str]] = {}
        """Number of records by group, by host."""
        self._of_group: dict[tuple[str, str], deque[int]] = {}
        """Numbers of records by host and group, the oldest first."""
        self._writing = asyncio.Lock()
        self._added = 0
        """The number of additions; one write covers all that came before it."""
        self._written = 0
        """The number of additions that are written, or that `problem` names."""
        self.problem: str | None = None
        """The reason why the newest records are in memory only; None when all are on disk."""
        self.loss: str | None = None
        """A note on a file that could not be read when this was opened; None if there is none."""

    @classmethod
    def open(cls, disk: Disk, directory: Path) -> ResetHistory:
        """Read the history that `add` wrote last; it is empty if there is none. Blocks.

        A file that cannot be read gets another name, and the history is empty.

        Raises:
            NewerVersionError: a newer version wrote the file; it is not changed. OSError: the disk failed.
        """
        history = cls(disk, directory)
        path = directory / FILE
        data = read_whole(disk, path)
        if data is not None:
            try:
                history._remember(decode(path, data))
            except CorruptError as error:
                target = rename_damaged(disk, path)
                history.loss = f"the history of resets until now is lost: {error.message}; the file is now {target}"
                logger.warning("%s", history.loss)
        return history

    async def add(self, records: Iterable[Reset]) -> None:
        """Add records; they are on disk when it returns, or `problem` has the reason.

        The file is written as a whole, once for all callers who wait while it is being written.
        """
        self._remember(records)
        self._added += 1
        mine = self._added
        async with self._writing:
            # Each write has all records, so one that began later covers this one.
            if self._written >= mine:
                return  # the write of another caller included these
            # Now and not after the write: those added meanwhile are not in it.
            written = self._added
            lines: list[msgspec.Struct] = [_Header(_VERSION), *self._records.values()]
            try:
                await asyncio.get_running_loop().run_in_executor(None, self._write, lines)
            except OSError as error:
                # Once, and not with every reset while the disk is full.
                if self.problem is None:
                    logger.warning("the history of resets cannot be written for now: %s", error)
                self.problem = f"the history of resets cannot be written: {error.strerror or error}"
            else:
                self.problem = None
            # Also after a failure: `problem` names it, and those that wait would fail in the same way.
            self._written = written

    def newest(self, *, group: str | None = None, most: int = MAX_RESET_RECORDS) -> list[Reset]:
        """Return the newest records first; of one group, or of all."""
        wanted = (record for record in reversed(self._records.values()) if group is None or record.group == group)
        return list(islice(wanted, most))

    def _remember(self, records: Iterable[Reset]) -> None:
        for record in records:
            number = next(self._numbers)
            self._records[number] = record
            self._hosts.add(record.host)
            self._groups.setdefault(record.host, KeyCounts()).add(record.group)
            self._of_group.setdefault((record.host, record.group), deque()).append(number)
            if len(self._records) > MAX_RESET_RECORDS:
                self._forget_one()

    def _forget_one(self) -> None:
        # The oldest of the group with most, of the host with most: a flood of resets pushes out itself.
        host = self._hosts.largest()
        group = None if host is None else self._groups[host].largest()
        assert host is not None
        assert group is not None
        numbers = self._of_group[host, group]
        del self._records[numbers.popleft()]
        if not numbers:
            del self._of_group[host, group]
        self._hosts.remove(host)
        self._groups[host].remove(group)
        if not self._groups[host]:
            del self._groups[host]

    def _write(self, lines: list[msgspec.Struct]) -> None:
        replace_whole(self._disk, self._directory / FILE, seal(msgspec.json.Encoder().encode_lines(lines) + b"{"))


def decode(path: Path, data: bytes) -> list[Reset]:
    """Return the records in the file `path`. Raises CorruptError, NewerVersionError."""
    text = unseal(data)
    head, _, rest = (data if text is None else text[:-1]).partition(b"\n")
    try:
        version = msgspec.json.decode(head, type=_Header).version
        # Only with a sound checksum: of a damaged file the version says nothing.
        if text is not None and version > _VERSION:
            raise NewerVersionError(
                f"{path} was written by a newer version", hint="run that version; the file was not changed"
            )
        # Files of the first version have no checksum; a newer one without it was cut.
        if version != (_UNCHECKED_VERSION if text is None else _VERSION):
            raise FormatError("its checksum does not match its content")
        return msgspec.json.Decoder(Reset).decode_lines(rest)
    except (msgspec.DecodeError, UnicodeDecodeError, FormatError) as error:
        raise CorruptError(
            f"{path} is damaged: {error}", hint="remove it; only the history of resets is lost with it"
        ) from error
