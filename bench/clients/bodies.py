"""Bodies that all differ and that nothing can compress: windows into one block of noise. Standard library alone."""

import os

_GAP = 37
"""So a second round over the noise cuts it elsewhere."""


class Bodies:
    """Bodies of `size_bytes` each."""

    def __init__(self, size_bytes: int) -> None:
        self._size = size_bytes
        self._noise = os.urandom(1 << 22)
        self._at = 0

    def take(self, count: int) -> list[bytes]:
        """The next ones."""
        made: list[bytes] = []
        size, noise = self._size, self._noise
        for _ in range(count):
            self._at = (self._at + size + _GAP) % (len(noise) - size)
            made.append(noise[self._at : self._at + size])
        return made
