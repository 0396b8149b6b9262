"""The resets of groups' positions that this Broker remembers: who moved which group, when, from where to where.

The invariants: the file holds whole records only, since it is replaced in one step; it never has more than
`MAX_RESET_RECORDS`. Beyond that the oldest of the host, then the group, with most records goes, so that a flood of
resets does not push out what others did. A record that cannot be written now is written with the next one: the move
itself is durable elsewhere, so a full disk does not undo it. A file that cannot be read keeps no Broker from serving:
it is set aside.
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
    """One position that was moved; `asked` in words. `old_offset` None: the group had none there."""

    time_ms: int
    user: str
    group: str
    topic: str
    partition_id: int
    asked: str
    new_offset: int
    old_offset: int | None = None
    host: str = ""
    """From where it was asked for; empty if over HTTP."""


class ResetHistory:
    """The newest resets. Event loop only, but for `open`, which blocks."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        self._records: dict[int, Reset] = {}
        """By number, the oldest first."""
        self._numbers = count()
        self._hosts: KeyCounts[str] = KeyCounts()
        """Number of records by host."""
        self._groups: dict[str, KeyCounts[str]] = {}
        """Number of records by group, by host."""
        self._of_group: dict[tuple[str, str], deque[int]] = {}
        """Numbers of records by host and group, the oldest first."""
        self._writing = asyncio.Lock()
        self._added = 0
        """Additions so far; one write takes all that came before it."""
        self._written = 0
        """Those of them that a write has taken, or that `problem` names."""
        self.problem: str | None = None
        """Why the newest records are in memory only; None when all are on disk."""
        self.loss: str | None = None
        """What became of a file that could not be read when this was opened."""

    @classmethod
    def open(cls, disk: Disk, directory: Path) -> ResetHistory:
        """The history that `add` wrote last; an empty one if there is none, or one that cannot be read, which then has
        another name. Blocks.

        Raises:
            NewerVersionError: the file is not what this version wrote; it is left untouched. OSError: as the disk did.
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
        """Remember these; they are on disk when it returns, or `problem` says why not.

        The file is written as a whole, once for all who wait while it is being written.
        """
        self._remember(records)
        self._added += 1
        mine = self._added
        async with self._writing:
            if self._written >= mine:
                return  # a write for somebody else has taken these along
            taken = self._added
            lines: list[msgspec.Struct] = [_Header(_VERSION), *self._records.values()]
            try:
                await asyncio.get_running_loop().run_in_executor(None, self._write, lines)
            except OSError as error:
                if self.problem is None:
                    logger.warning("the history of resets cannot be written for now: %s", error)
                self.problem = f"the history of resets cannot be written: {error.strerror or error}"
            else:
                self.problem = None
            self._written = taken

    def newest(self, *, group: str | None = None, most: int = MAX_RESET_RECORDS) -> list[Reset]:
        """The newest first; of one group, or of all."""
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
    """What the file `path` says. Raises CorruptError, NewerVersionError."""
    text = unseal(data)
    head, _, rest = (data if text is None else text[:-1]).partition(b"\n")
    try:
        version = msgspec.json.decode(head, type=_Header).version
        if text is not None and version > _VERSION:
            raise NewerVersionError(
                f"{path} was written by a newer version", hint="run that version; the file was left untouched"
            )
        if version != (_UNCHECKED_VERSION if text is None else _VERSION):
            raise FormatError("its checksum does not match its content")
        return msgspec.json.Decoder(Reset).decode_lines(rest)
    except (msgspec.DecodeError, UnicodeDecodeError, FormatError) as error:
        raise CorruptError(
            f"{path} is damaged: {error}", hint="remove it; only the history of resets is lost with it"
        ) from error
