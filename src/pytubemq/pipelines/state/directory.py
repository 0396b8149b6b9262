"""The state directory: a path or a URI below which a pipeline keeps what it must know at its next start.

The invariant: a file of JSON is replaced whole, so that a reader, and a run after a kill, sees the old one or the new.
Where a move puts a file in another's place (local ones) that does it; an object store shows what is written when it is
closed; HDFS has neither, so there the new one waits under a name of its own until the old one is gone, and counts then.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow import fs

MAX_PROGRESS_BYTES: Final = 4 << 20
"""Of `progress.jsonl`; above it the older half is dropped."""
_OBJECT_STORES: Final = ("s3", "gcs", "abfs")
"""File systems of pyarrow in which what is written is there when it is closed, whole."""
_NEW: Final = ".new"
"""What the name of a file ends with that is whole and takes another's place."""


class StateDirectory:
    """Files of a pipeline's state, by names relative to it."""

    def __init__(self, location: str, *, create: bool = True) -> None:
        """Open the directory at `location`, a local path or a URI as in hdfs:// or s3://.

        Args:
            location: where it is.
            create: True if it is created where there is none.

        Raises:
            ConfigError: the place cannot be reached or made.
        """
        from pyarrow import fs

        self.local = "://" not in location
        self.location = os.path.abspath(location) if self.local else location.rstrip("/")
        try:
            if self.local:
                self._fs: fs.FileSystem = fs.LocalFileSystem()
                self._root = self.location
            else:
                self._fs, root = fs.FileSystem.from_uri(self.location)
                self._root = root.rstrip("/")
            kind = self._fs.type_name
            self._whole_when_closed = kind in _OBJECT_STORES
            self._moves_over = kind == "local"
            if create:
                self._fs.create_dir(self._root, recursive=True)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"the state directory {location} cannot be {'created' if create else 'opened'}: {error}",
                hint="set `state` to a directory that can be written, or to a URI that both pyarrow and Spark support",
            ) from error

    def of_spark(self, name: str) -> str:
        """Return the place of `name` as Spark takes it."""
        return f"{self.location}/{name}"

    def read(self, name: str) -> dict[str, Any] | None:
        """Read the JSON object in a file; None if there is none, or if it is not one."""
        text = self.read_bytes(name)
        try:
            value = json.loads(text) if text else None
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    def read_bytes(self, name: str) -> bytes | None:
        """Read a file's bytes; None if it is not there."""
        found = self._content(self._at(name))
        if found is None and not (self._whole_when_closed or self._moves_over):
            found = self._content(self._at(name) + _NEW)  # a kill came between the old one's end and the move
        return found

    def _content(self, path: str) -> bytes | None:
        try:
            with self._fs.open_input_stream(path) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def write(self, name: str, value: dict[str, Any]) -> None:
        """Put a JSON object in a file, whole or not at all."""
        self._replace(name, json.dumps(value, sort_keys=True).encode())

    def delete(self, name: str) -> None:
        """Take a file away, if it is there."""
        if self.exists(name):
            self._fs.delete_file(self._at(name))

    def exists(self, name: str) -> bool:
        """True if there is a file or directory of that name."""
        return self._is_there(self._at(name))

    def directories(self, beginning: str) -> list[str]:
        """List the directories whose names begin so, by their own names."""
        from pyarrow import fs

        there = self._fs.get_file_info(fs.FileSelector(self._root, allow_not_found=True))
        kind = fs.FileType.Directory
        return sorted(info.base_name for info in there if info.type == kind and info.base_name.startswith(beginning))

    def names(self, under: str) -> Iterator[str]:
        """List the files directly in a directory, by their own names; none if it is not there."""
        from pyarrow import fs

        for info in self._fs.get_file_info(fs.FileSelector(self._at(under), allow_not_found=True)):
            if info.is_file:
                yield info.base_name

    def add_line(self, name: str, value: dict[str, Any]) -> None:
        """Add a line to a file of JSON lines, which keeps to `MAX_PROGRESS_BYTES`."""
        line = json.dumps(value, sort_keys=True, default=str).encode() + b"\n"
        size = self._fs.get_file_info(self._at(name)).size or 0
        if self.local and size + len(line) <= MAX_PROGRESS_BYTES:
            with open(self._at(name), "ab") as file:
                file.write(line)
            return
        old = self.read_bytes(name) or b""
        if len(old) + len(line) > MAX_PROGRESS_BYTES:
            half = old[len(old) // 2 :]
            old = half[half.find(b"\n") + 1 :]
        self._replace(name, old + line)

    def _replace(self, name: str, content: bytes) -> None:
        target = self._at(name)
        self._fs.create_dir(target.rpartition("/")[0], recursive=True)
        if self._whole_when_closed:
            self._put(target, content)
        elif self._moves_over:
            beside = f"{target}.{os.getpid()}.tmp"
            self._put(beside, content)
            self._fs.move(beside, target)
        else:
            new = target + _NEW
            if self._is_there(new) and not self._is_there(target):
                self._fs.move(new, target)  # what an earlier run was killed over: it is the only one there is
            self._put(new, content)
            if self._is_there(target):
                self._fs.delete_file(target)
            self._fs.move(new, target)

    def _put(self, path: str, content: bytes) -> None:
        with self._fs.open_output_stream(path) as stream:
            stream.write(content)

    def _is_there(self, path: str) -> bool:
        from pyarrow import fs

        return bool(self._fs.get_file_info(path).type != fs.FileType.NotFound)

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"
