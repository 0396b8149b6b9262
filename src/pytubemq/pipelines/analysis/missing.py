"""Names in a pipeline that its cluster does not have: faults of a file that only the cluster can show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import ConfigError, NotFoundError, TubeError
from pytubemq.model.missing_topic import topic_missing

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytubemq.pipelines.file.source_positions import Places


class MissingError(TubeError):
    """The root of these; `path` is where the pipeline names it, as `source.topics[0]` or `source.start`."""

    path: str

    def put(self, places: Places) -> None:
        """Add its line and column to the message, as in the other faults of a file."""
        one = self.path == "source.topics[0]" and self.path not in places.by_path
        mark = places.of("source.topic" if one else self.path).value
        self.message = f"{places.file}:{mark.line}:{mark.column} {self.message}"


class MissingTopicError(MissingError, NotFoundError):
    """A topic that is not there."""

    def __init__(self, path: str, key: str, topic: str, *, known: Collection[str] | None) -> None:
        """Create the error; `key` is the path as it is shown, `known` the existing topics, or None."""
        error = topic_missing(topic, known=known, key=key)
        super().__init__(error.message, hint=error.hint, code=error.code)
        self.path = path


class MissingStartError(MissingError, ConfigError):
    """A place to begin at that there is not."""

    path = "source.start"

    def __init__(self, why: ConfigError) -> None:
        """Create the error from what the source says of the place."""
        super().__init__(f"{self.path}: {why.message}", hint=why.hint)
