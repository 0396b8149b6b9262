"""The place of a pipeline's dead letters: files, or a topic with files for what is too long.

The invariant: what is read here is where the sinks of dead letters write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import ConfigError, NotFoundError
from pytubemq.pipelines.analysis.default_place import with_place
from pytubemq.pipelines.file.cluster_keys import address_of
from pytubemq.pipelines.file.model import DEAD_LETTER, DeadLetter
from pytubemq.pipelines.file.secrets import resolve
from pytubemq.pipelines.operate.dead_letters import DeadLetterFiles

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import Pipeline
    from pytubemq.pipelines.operate.dead_letters import DeadLetters


def dead_letters_of(pipeline: Pipeline) -> DeadLetters:
    """Open the dead letters of a pipeline.

    Raises:
        ConfigError: they lie where they are not read from here.
        NotFoundError: there are none yet.
    """
    said = pipeline.dead_letter or DeadLetter()
    location = resolve(said.path) if said.path else f"{pipeline.state}/{DEAD_LETTER}"
    if said.format == "tubemq" and said.topic is not None:
        from pytubemq.pipelines.operate.dead_letter_topic import TopicDeadLetters, topic_of  # it opens connections

        cluster = pipeline.cluster_of(said)
        master = str(address_of(cluster)) if cluster.master else None
        topic = topic_of(master=master, topic=resolve(said.topic), state=pipeline.state)
        return TopicDeadLetters(topic, DeadLetterFiles(location))
    if said.format != "parquet":
        where = said.table or said.path or said.url
        raise ConfigError(
            f"the dead letters of {pipeline.name} go to {said.format} ({where}), which this command cannot read",
            hint="read them with that system's own tools",
        )
    files = DeadLetterFiles(location)
    if not files.files():
        raise NotFoundError(f"there are no dead letters in {location}: no record has been rejected so far")
    return files


def dead_letter_beside(pipeline: Pipeline) -> DeadLetter:
    """Return where the pipeline's own dead letters are, for a run over it with a state of its own."""
    return with_place(pipeline.dead_letter or DeadLetter(), f"{pipeline.state}/{DEAD_LETTER}")
