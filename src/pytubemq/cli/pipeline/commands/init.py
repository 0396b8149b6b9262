"""`pytubemq pipeline init`: a file to begin with."""

from __future__ import annotations

import re
from pathlib import Path

import click

from pytubemq.cli.options import current, global_options
from pytubemq.cli.target import masters
from pytubemq.errors import AlreadyExistsError
from pytubemq.model.names import check_topic
from pytubemq.pipelines import SINKS, TEMPLATE_FORMATS, template


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--format", "message", type=click.Choice(TEMPLATE_FORMATS), default="json", show_default=True,
              help="The format of the messages.")  # fmt: skip
@click.option("--sink", type=click.Choice(tuple(SINKS)), default="parquet", show_default=True, help="The kind of sink.")
@click.option("--topic", metavar="NAME", default="demo", show_default=True, help="The topic to read.")
@click.option("--spark-pipelines", is_flag=True,
              help="Instead, a directory for Spark's own declarative pipelines that reads the topic.")  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@global_options
def init(file: Path, message: str, sink: str, topic: str, spark_pipelines: bool, force: bool) -> None:
    """Write a commented pipeline file that has no fault and a test that passes."""
    options = current()
    check_topic(topic)
    if spark_pipelines:
        from pytubemq.pipelines import spark_pipelines_files

        made = spark_pipelines_files(name=_name(file), topic=topic, directory=file, master=masters(options, None))
        _write_all(file, made, force=force)
        options.say(f"wrote {', '.join(str(file / name) for name in made)}")
        options.say(f"Next:  spark-pipelines dry-run --spec {file / 'spark-pipeline.yml'}")
        return
    if not file.suffix:
        file = file.with_suffix(".yaml")
    text = template(name=_name(file), file=file.name, topic=topic, message=message, sink=sink)
    _write_all(file.parent, {file.name: text}, force=force)
    options.say(f"wrote {file}: {message} of the topic {topic} to {sink}")
    options.say(f"Next:  {options.next(f'pytubemq pipeline lint {file}')}")


def _name(file: Path) -> str:
    """Return the pipeline's name from the file's: `my orders.yaml` becomes my_orders."""
    name = re.sub(r"\W+", "_", file.stem, flags=re.ASCII).strip("_")[:64]
    return name if name and not name[0].isdigit() else f"p_{name}"[:64]


def _write_all(directory: Path, made: dict[str, str], *, force: bool) -> None:
    there = [directory / name for name in made if (directory / name).exists()]
    if there and not force:
        raise AlreadyExistsError(f"{there[0]} exists already", hint="name another file, or overwrite it with --force")
    for name, text in made.items():
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
