"""A store opened as a Broker would open it, for reading only.

The invariant: nothing on the disk is changed.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytubemq.storage.store.store import BrokerStore
from pytubemq.storage.store_settings import StoreSettings
from pytubemq.storage.tools.read.overlay import OverlayDisk
from pytubemq.storage.tools.read.store_access import check_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def open_read_only(root: Path, *, check: bool = False) -> Iterator[BrokerStore]:
    """Yield the store in `root`, while a `with` runs.

    Args:
        check: whether each record's check is computed when it is read, so that damaged ones are skipped.

    Raises:
        StorageError: no store. CorruptError, NewerVersionError, OlderVersionError: a Broker would not open it either.
    """
    check_store(root)
    settings = StoreSettings(reserve_bytes=0, check_on_read=check, check_packs_on_read=check)
    store = BrokerStore.open(root, disk=OverlayDisk(), settings=settings)
    try:
        yield store
    finally:
        store.close(apply=False)
