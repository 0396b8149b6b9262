"""`pytubemq master migrate`: a stopped Master's records from one store into another one.

The invariant: no Master runs on either of the two meanwhile. This holds the lock of a directory, and the lease of a
database, as the Master would.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from pytubemq.errors import ConfigError, DirectoryLockedError, FencedError, NotFoundError
from pytubemq.master.leader.candidacy import make_elector
from pytubemq.net.clock import SystemClock
from pytubemq.storage.disk.disk import OsDisk, make_private
from pytubemq.storage.metastore.migration import Contents, check_empty, copy_records
from pytubemq.storage.metastore.opening import (
    METADATA_FILE,
    MOVED_MARK,
    lead_in_database,
    open_database,
    open_metastore,
)
from pytubemq.storage.metastore.port import Metadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.core.database.store_options import StoreOptions
    from pytubemq.storage.metastore.port import MetaStore

T = TypeVar("T")

HOLDER: Final = "pytubemq master migrate"
_LEASE_S: Final = 10.0
"""Longer than a Master's, as nobody waits to take over."""
_WAIT_S: Final = 10.0
"""The time for getting the lease: a Master that was killed still has it until its end."""


async def migrate(source: Path | StoreOptions, target: Path | StoreOptions, *, dry_run: bool) -> Contents:
    """Copy all records, or with `dry_run` only read both stores; return the counts of what the source has.

    Raises:
        NotFoundError: the source has no records.
        AlreadyExistsError: the target has some.
        DirectoryLockedError, FencedError: a Master runs on one of them.
        StorageError: one of them cannot be used; the target has none of the records.
    """
    async with AsyncExitStack() as stack:
        records = await _read(source, stack)
        if records is None:
            raise NotFoundError(f"no metadata in {name_of(source)}", hint="give the store that a Master has used")
        if dry_run:
            there = await _read(target, stack)
            check_empty(Metadata() if there is None else there, name_of(target))
        else:
            await _write(records, target, stack)
        return Contents.of(records)


def name_of(place: Path | StoreOptions) -> str:
    """Return a store's name for texts."""
    return str(place) if isinstance(place, Path) else place.place


async def _read(place: Path | StoreOptions, stack: AsyncExitStack) -> Metadata | None:
    """Return the records of a store, without making any; None if there is none."""
    if not isinstance(place, Path):
        try:
            await _hold(place, stack, create=False)
        except NotFoundError:
            return None
        return await _blocking(lambda: _load(open_database(place, create=False)))
    if not (place / METADATA_FILE).exists():
        return None
    _lock(place, stack)
    return await _blocking(lambda: _load(open_metastore(place)))


async def _write(records: Metadata, place: Path | StoreOptions, stack: AsyncExitStack) -> None:
    make: Callable[[], MetaStore]
    if not isinstance(place, Path):
        epoch = await _hold(place, stack, create=True)
        make = partial(lead_in_database, place, epoch, directory=None)
    else:
        _lock(place, stack)
        if not (place / METADATA_FILE).exists():
            (place / MOVED_MARK).unlink(missing_ok=True)  # what is copied is newer than what was moved away
        make = partial(open_metastore, place)
    await _blocking(lambda: _copy(records, make(), name_of(place)))


def _load(store: MetaStore) -> Metadata:
    with ExitStack() as stack:
        stack.callback(store.close)
        return store.load()


def _copy(records: Metadata, store: MetaStore, name: str) -> None:
    with ExitStack() as stack:
        stack.callback(store.close)
        copy_records(records, store, name)


def _lock(directory: Path, stack: AsyncExitStack) -> None:
    try:
        make_private(directory)
    except OSError as error:
        raise ConfigError(
            f"the directory {directory} cannot be made: {error.strerror or error}", hint="give another one"
        ) from error
    try:
        lock = OsDisk().lock(directory / "lock")
    except DirectoryLockedError as error:
        error.hint = "stop that Master first"
        raise error from None
    stack.callback(lock.release)


async def _hold(database: StoreOptions, stack: AsyncExitStack, *, create: bool) -> int:
    """Hold the lease of a database until the end; return the epoch."""
    elector = await make_elector(database, HOLDER, lease_s=_LEASE_S, clock=SystemClock(), create=create)
    stack.push_async_callback(elector.close)
    try:
        async with asyncio.timeout(_WAIT_S):
            return await elector.lead()
    except TimeoutError:
        raise FencedError(
            f"{elector.leader or 'a Master on another machine'} leads in {database.place}",
            hint="stop that Master first, and those that stand by",
        ) from None


async def _blocking(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, work)
