"""The resets of groups' positions that this Broker remembers: who moved which group, when, from where to where.

The invariants: the file holds whole records only, since it is replaced in one step; it never has more than the newest
`MAX_RESET_RECORDS`. A record that cannot be written now is written with the next one: the move itself is durable
elsewhere, so a full disk does not undo it. A file that cannot be read keeps no Broker from serving: it is set aside.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from pytubemq.errors import CorruptError, FormatError, NewerVersionError
from pytubemq.model.limits import MAX_RESET_RECORDS
from pytubemq.storage.aside import set_aside
from pytubemq.storage.sealed_file import read_whole, replace_whole, seal, unseal

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pytubemq.storage.disk import Disk

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


class ResetHistory:
    """The newest resets. Event loop only, but for `open`, which blocks."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        self._records: deque[Reset] = deque(maxlen=MAX_RESET_RECORDS)
        self._writing = asyncio.Lock()
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
                history._records.extend(decode(path, data))
            except CorruptError as error:
                target = set_aside(disk, path)
                history.loss = f"the history of resets until now is lost: {error.message}; the file is now {target}"
                logger.warning("%s", history.loss)
        return history

    async def add(self, records: Iterable[Reset]) -> None:
        """Remember these; they are on disk when it returns, or `problem` says why not."""
        self._records.extend(records)
        async with self._writing:
            lines: list[msgspec.Struct] = [_Header(_VERSION), *self._records]
            try:
                await asyncio.get_running_loop().run_in_executor(None, self._write, lines)
            except OSError as error:
                if self.problem is None:
                    logger.warning("the history of resets cannot be written for now: %s", error)
                self.problem = f"the history of resets cannot be written: {error.strerror or error}"
            else:
                self.problem = None

    def newest(self, *, group: str | None = None, most: int = MAX_RESET_RECORDS) -> list[Reset]:
        """The newest first; of one group, or of all."""
        wanted = (record for record in reversed(self._records) if group is None or record.group == group)
        return list(islice(wanted, most))

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
