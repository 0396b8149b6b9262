"""What a pipeline names and its cluster has not: the faults of a file that only the cluster tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import Code, ConfigError, NotFoundError, TubeError

if TYPE_CHECKING:
    from pytubemq.spark.pipeline.spec.places import Places


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

    def __init__(self, path: str, key: str, topic: str, *, near: str | None) -> None:
        """`key` is the path as it is shown; `near` is the nearest topic that there is."""
        create = f"create it with  pytubemq topic create {topic}"
        super().__init__(
            f"{key}: topic {topic!r} does not exist, or no Broker serves it now",
            hint=create if near is None else f"did you mean {near}? Else {create}",
            code=Code.TOPIC_NOT_DEPLOYED,
        )
        self.path = path


class MissingStartError(MissingError, ConfigError):
    """A place to begin at that there is not."""

    path = "source.start"

    def __init__(self, why: ConfigError) -> None:
        """`why` is what the source says of it."""
        super().__init__(f"{self.path}: {why.message}", hint=why.hint)
