"""The owner of the log of Spark's file sink (Parquet with `layout: log`).

Spark's file sink skips every batch whose number is in `_spark_metadata` already, without a word. A query that
begins at batch 0 again over such a log would write nothing and count all as done.

The invariant: a query that asks first never writes below a log that another progress has written.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.file.secrets import resolve
from pytubemq.pipelines.state.files import read_object

if TYPE_CHECKING:
    from typing import Protocol

    from pytubemq.pipelines.file.model import Sink
    from pytubemq.pipelines.state.files import StateFiles

    class TargetFiles(Protocol):
        """Files at the sink's target, as far as an owner needs them."""

        def exists(self, name: str) -> bool: ...
        def make_directory(self, name: str) -> None: ...
        def read(self, name: str) -> str | None: ...
        def write(self, name: str, text: str) -> None: ...


SPARKS_LOG: Final = "_spark_metadata"
OWNER: Final = "_tubemq_owner"
"""Beside Spark's log; names that begin with _ are no data to readers."""
_IN_CHECKPOINT: Final = "tubemq-owner.json"
"""In the query's checkpoint, so that whatever takes the progress away takes this away, too."""


class LogOwner:
    """The tie between a query's checkpoint and the directory that it writes."""

    def __init__(self, files: TargetFiles, state: StateFiles, checkpoint: str, sink: Sink) -> None:
        self._files = files
        self._state = state
        self._name = f"{checkpoint}/{_IN_CHECKPOINT}"
        self.path = resolve(sink.path or "").rstrip("/")

    def is_foreign(self) -> bool:
        """True if the directory has the log of another progress."""
        theirs = self._files.read(f"{self.path}/{OWNER}")
        if theirs is None:
            return self._files.exists(f"{self.path}/{SPARKS_LOG}")
        return theirs != self._mine()

    def claim(self) -> None:
        """Write down, on both sides, that the directory is this query's, once it is known not to be foreign."""
        mine = self._mine()
        if mine is None:
            mine = uuid.uuid4().hex
            self._state.write(self._name, {"owner": mine})
        if self._files.read(f"{self.path}/{OWNER}") is None:
            self._files.make_directory(self.path)
            self._files.write(f"{self.path}/{OWNER}", mine)

    def _mine(self) -> str | None:
        said = read_object(self._state, self._name).get("owner")
        return said if isinstance(said, str) else None
