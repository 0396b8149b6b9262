"""Files where Spark writes them: any file system that Hadoop's classes in the driver know, through py4j."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from pytubemq.pipelines.sinks.object_stores import object_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HadoopFiles:
    """Names of files as Spark takes them: a path, or a URI."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark: Any = spark
        self._jvm: Any = spark.sparkContext._jvm

    def exists(self, name: str) -> bool:
        """True if there is a file or directory of that name."""
        path = self._path(name)
        return bool(self._of(path).exists(path))

    def make_directory(self, name: str) -> None:
        """Make a directory and those above it."""
        path = self._path(name)
        self._of(path).mkdirs(path)

    def refusal(self, directory: str) -> str | None:
        """Return why nothing can be made in a directory, or the directory itself cannot; None if it can.

        What is made to see it is taken away again.
        """
        from py4j.protocol import Py4JJavaError

        try:
            probe = f"{self.nearest(directory)}/_tubemq_probe_{uuid.uuid4().hex}"
            self.make_directory(probe)
            there = self.exists(probe)
            self.delete(probe)
        except Py4JJavaError as error:
            return str(error.java_exception.getMessage())
        return None if there else "nothing can be made there"

    def rename(self, old: str, new: str) -> bool:
        """Give a file or directory another name; False if that one was there already."""
        source, target = self._path(old), self._path(new)
        files = self._of(source)
        return not files.exists(target) and bool(files.rename(source, target))

    def delete(self, name: str) -> None:
        """Take a file or directory away, with all in it, if it is there."""
        path = self._path(name)
        self._of(path).delete(path, True)

    def names(self, directory: str) -> list[str]:
        """List what is directly in a directory; nothing if it is not there."""
        path = self._path(directory)
        files = self._of(path)
        if not files.exists(path):
            return []
        return [str(status.getPath().getName()) for status in files.listStatus(path)]

    def read(self, name: str) -> str | None:
        """Read the text of a small file; None if it is not there."""
        if not self.exists(name):
            return None
        path = self._path(name)
        stream = self._of(path).open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Put a small text in a file, in place of what was there."""
        beside = f"{name}.tmp"
        path = self._path(beside)
        stream = self._of(path).create(path, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self._replace(path, self._path(name))

    def nearest(self, name: str) -> str:
        """Return the directory itself, or the nearest one above it that exists.

        In an object store the directory itself: there are none to be made, and rights may begin with it.
        """
        if object_store(name):
            return name
        while not self.exists(name) and "/" in name.rstrip("/").removeprefix("file://"):
            above = name.rstrip("/").rpartition("/")[0]
            if not above or above.endswith((":", ":/")):
                return name[: len(above) + 1]
            name = above
        return name

    def _replace(self, old: Any, new: Any) -> None:
        how = self._jvm.org.apache.hadoop.fs.Options.Rename
        options = self._spark.sparkContext._gateway.new_array(how, 1)
        options[0] = how.OVERWRITE
        uri = self._of(new).makeQualified(new).toUri()
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(uri, self._of(new).getConf())
        context.rename(old, new, options)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(name)

    def _of(self, path: Any) -> Any:
        return path.getFileSystem(self._spark._jsparkSession.sessionState().newHadoopConf())
