"""`encode=inlong-msg`: each body as the one record of an InLongMsg message.

The invariant: what a body becomes follows from its row and the options; only where a row has no time, and repeats
need not be recognized, is it the clock's.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError
from pytubemq.model.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OPTIONS: Final = {
    "groupId": "the InLong group, needed",
    "streamId": "the InLong stream, needed; it is also the message's type, unless the rows or `msgType` name one",
    "version": "0, 1 or 2; default 1",
    "compress": "true (Snappy) or false; default true",
}
"""Names behind `encode.`, and what they take."""


@dataclass(frozen=True, slots=True)
class InLongEncoder:
    """Makes InLongMsg messages."""

    group_id: str
    stream_id: str
    version: int = 1
    compress: bool = True

    def encode(self, bodies: Sequence[bytes], times_ms: Sequence[int | None] | None) -> list[bytes]:
        """Encode the messages, one for each body; a row without a time gets the current one."""
        from pytubemq.decode.inlong.encode import encode_inlong

        now_ms = int(time.time() * 1000)
        shared = {"groupId": self.group_id, "streamId": self.stream_id}
        made: list[bytes] = []
        for number, body in enumerate(bodies):
            time_ms = None if times_ms is None else times_ms[number]
            at_ms = now_ms if time_ms is None else time_ms
            attributes = {**shared, "dt": str(at_ms)}
            made.append(
                encode_inlong([(attributes, [body])], version=self.version, compress=self.compress, created_ms=at_ms)
            )
        return made


def inlong_encoder(options: Mapping[str, str]) -> InLongEncoder:
    """Read the options behind `encode.`; names are in lower case.

    Raises:
        ConfigError: one is unknown, missing, or has a value that it does not take.
    """
    known = {name.lower(): name for name in OPTIONS}
    for name in options:
        if name not in known:
            close = suggest(name, OPTIONS)
            names = ", ".join(f"encode.{one}" for one in OPTIONS)
            hint = f"did you mean encode.{close}?" if close else f"the options are {names}"
            raise ConfigError(f"there is no option encode.{name}", hint=hint)
    return InLongEncoder(
        group_id=_name("groupId", options),
        stream_id=_name("streamId", options),
        version=int(_one_of("version", options, "1", ("0", "1", "2"))),
        compress=_one_of("compress", options, "true", ("true", "false")) == "true",
    )


def _name(name: str, options: Mapping[str, str]) -> str:
    text = options.get(name.lower(), "").strip()
    if not text or len(text) > 256 or any(char in text for char in "&=,"):
        raise ConfigError(
            f"encode=inlong-msg: encode.{name} is {text[:80]!r}",
            hint=f"write {OPTIONS[name].split(',')[0]}: 1 to 256 characters without & = and ,",
        )
    return text


def _one_of(name: str, options: Mapping[str, str], default: str, takes: tuple[str, ...]) -> str:
    text = options.get(name.lower(), default).strip().lower()
    if text not in takes:
        raise ConfigError(f"option encode.{name} = {text!r} is not valid", hint=f"it takes {', '.join(takes)}")
    return text
