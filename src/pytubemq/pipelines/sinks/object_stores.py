"""Object stores, known by the scheme of a path, where the rename of a directory is a copy of its files, one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.sink_kind import Wrong

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMES: Final = frozenset({
    "s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "adl", "oss", "obs", "cosn", "cos", "swift", "o3fs",
})  # fmt: skip
WHY: Final = (
    "a batch is completed by a rename, which an object store does file by file; if it is killed, a part is left"
)


def object_store(path: str | None) -> str | None:
    """Return the scheme of a path in an object store; None for other paths and those that begin with a reference."""
    scheme, found, _ = (path or "").partition(":/")
    return scheme.lower() if found and scheme.lower() in SCHEMES else None


def wrong_path(path: str | None) -> Iterator[Wrong]:
    """Yield why batches cannot be renamed at a path, where that is so."""
    if store := object_store(path):
        text = f"neither exactly once nor at least once is possible in {store}: {WHY}"
        hint = "use format delta, another kind of path, or layout: log if Spark reads it"
        yield Wrong("path", text, hint, code=FaultCode.GUARANTEE_IMPOSSIBLE)
