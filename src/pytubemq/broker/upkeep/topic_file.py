"""The Master's last configuration on disk, so that a Broker that starts without a Master serves the same topics.

The invariants: the file is replaced in one step, and a checksum covers all its bytes. A file whose checksum fails is
renamed and logged, never used in part, and the Master sends its configuration again. A file of the version without
checksums is read once and rewritten with one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import msgspec

from pytubemq.broker.topics import MasterConfig
from pytubemq.broker.upkeep.stored_topics import StoredTopics, named
from pytubemq.errors import CorruptError, FormatError, NewerVersionError
from pytubemq.storage.disk.damaged_file import rename_damaged
from pytubemq.storage.disk.sealed_file import read_whole, replace_whole, seal, unseal

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.storage.disk.disk import Disk

logger = logging.getLogger(__name__)

FILE: Final = "topics.json"
_VERSION: Final = 2
_UNCHECKED_VERSION: Final = 1
"""The version of files without a checksum, as earlier programs wrote them."""


class _Stored(MasterConfig, frozen=True, kw_only=True):
    """The configuration as it is in the file."""

    version: int


class TopicFile:
    """The configuration of one Broker on disk; `open` and `save` block."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        """Prepare without reading; call `open` instead."""
        self._disk = disk
        self._path = directory / FILE
        self.config = MasterConfig()
        """The configuration that `open` read or `save` wrote last; without topics if there was none."""
        self.loss: str | None = None
        """The reason why this Broker's topics are unknown; None once the Master has sent them again."""
        self.stored = StoredTopics()
        """The topics of the store while the configuration is unknown, for the Master; none otherwise."""

    @classmethod
    def open(cls, disk: Disk, directory: Path, stored: StoredTopics | None = None) -> TopicFile:
        """Read the configuration that `save` wrote last; a file that cannot be read is renamed.

        Args:
            stored: the topics of the store, which are reported to the Master if the file has no topics.

        Raises:
            NewerVersionError: a newer version wrote it; it is not changed. OSError: the disk failed.
        """
        found, stored = cls(disk, directory), stored or StoredTopics()
        path = found._path
        data = read_whole(disk, path)
        if data is None:
            found._missing(stored)
            return found
        try:
            found.config = decode(path, data)
        except CorruptError as error:
            target = rename_damaged(disk, path)
            found.loss = (
                f"topics: {error.message}; the file is now {target}, and no topic is served until the Master has "
                "sent them again"
            )
            found.stored = stored
            logger.error("%s", found.loss)
            return found
        if not found.config.has_topics:
            found._missing(stored)
        if unseal(data) is None:
            try:
                found.save(found.config)
            except OSError as error:  # the next change of a topic writes it
                logger.warning("%s stays without a checksum until the next change of a topic: %s", path, error)
        return found

    def save(self, config: MasterConfig) -> None:
        """Put the configuration on disk, whole or not at all.

        Raises:
            OSError: the disk failed; the previous file is intact.
        """
        replace_whole(self._disk, self._path, encode(config))
        self.config = config
        if config.has_topics:
            self.loss, self.stored = None, StoredTopics()

    def _missing(self, stored: StoredTopics) -> None:
        """Record that the configuration of the topics in the store is not there."""
        if not (names := stored.names()):
            return
        self.stored = stored
        self.loss = (
            f"topics: {self._path} is missing, and the store has {named(names)}; no topic is served until the "
            "Master has sent its configuration again"
        )
        logger.error("%s", self.loss)


def encode(config: MasterConfig) -> bytes:
    """Return the content of the file: one JSON object, its check the last member."""
    text = msgspec.json.encode(_Stored(version=_VERSION, **msgspec.structs.asdict(config)))
    return seal(text[:-1] + b",")


def decode(path: Path, data: bytes) -> MasterConfig:
    """Return the configuration that the content `data` of `path` holds.

    Raises:
        CorruptError: the checksum fails, or the content cannot be used. NewerVersionError: a newer version wrote it.
    """
    text = unseal(data)
    try:
        version = msgspec.json.decode(data, type=dict[str, msgspec.Raw])["version"]
        number = msgspec.json.decode(version, type=int)
        if text is not None and number > _VERSION:
            raise NewerVersionError(
                f"{path} was written by a newer version", hint="run that version; the file was not changed"
            )
        if number != (_UNCHECKED_VERSION if text is None else _VERSION):
            raise FormatError("its checksum does not match its content")
        stored = msgspec.structs.asdict(msgspec.json.decode(data, type=_Stored))
        del stored["version"]
        config = MasterConfig(**stored)
        if text is None:
            config.topics()  # without a checksum, parsing is the only proof
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, FormatError) as error:
        raise CorruptError(
            f"{path} is damaged: {error}", hint="remove it; the Master sends the topics again at the next start"
        ) from error
    return config
