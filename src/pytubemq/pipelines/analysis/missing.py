"""What a pipeline names and its cluster has not: the faults of a file that only the cluster tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import ConfigError, NotFoundError, TubeError
from pytubemq.model.missing_topic import topic_missing

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytubemq.pipelines.file.places import Places


class MissingError(TubeError):
    """The root of these; `path` is where the pipeline names it, as `source.topics[0]` or `source.start`."""

    path: str

    def put(self, places: Places) -> None:
        """Tell its line and column, too, as those of the other faults of a file."""
        one = self.path == "source.topics[0]" and self.path not in places.by_path
        mark = places.of("source.topic" if one else self.path).value
        self.message = f"{places.file}:{mark.line}:{mark.column} {self.message}"


class MissingTopicError(MissingError, NotFoundError):
    """A topic that is not there."""

    def __init__(self, path: str, key: str, topic: str, *, known: Collection[str] | None) -> None:
        """`key` is the path as it is shown; `known` are the topics that there are, None if the Master does not say."""
        error = topic_missing(topic, known=known, key=key)
        super().__init__(error.message, hint=error.hint, code=error.code)
        self.path = path


class MissingStartError(MissingError, ConfigError):
    """A place to begin at that there is not."""

    path = "source.start"

    def __init__(self, why: ConfigError) -> None:
        """`why` is what the source says of it."""
        super().__init__(f"{self.path}: {why.message}", hint=why.hint)
