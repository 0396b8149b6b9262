"""The author and time of a change, and their stamp on a record.

Times are ms since 1970. The serial id is not set here: the catalogue renews it when it stores the record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from pytubemq.master.catalogue.audit_trail import current_origin
from pytubemq.model.ids import UNDEFINED
from pytubemq.model.limits import MAX_USER_CHARS
from pytubemq.model.records import Stamp

API_USER: Final = "jsonApi"
"""The user name on records of the JSON API's callers that were not identified."""


@dataclass(frozen=True, slots=True)
class Audit:
    """A change requested by `user` at `ms`.

    A new record may name somebody else as the one who changed it last (`modify_user`, `modify_ms`); without, it is
    who made it.
    """

    user: str
    ms: int
    data_version_id: int = UNDEFINED
    modify_user: str = ""
    modify_ms: int = 0

    def made(self) -> Stamp:
        """Return the stamp of a new record."""
        return Stamp(
            create_user=self.user,
            create_ms=self.ms,
            modify_user=self.modify_user or self.user,
            modify_ms=self.modify_ms or self.ms,
            data_version_id=self.data_version_id,
        )

    def changed(self, stamp: Stamp) -> Stamp:
        """Return the stamp of a changed record; its version stays unless another is given."""
        version = stamp.data_version_id if self.data_version_id == UNDEFINED else self.data_version_id
        return replace(stamp, modify_user=self.user, modify_ms=self.ms, data_version_id=version)


def author_of(user: str | None, ms: int) -> Audit:
    """Return the author and time of a change: the identified user, else the given one, else the JSON API's."""
    origin = current_origin()
    name = (origin.user if origin is not None else "") or (user or "").strip()
    return Audit(name[:MAX_USER_CHARS] or API_USER, ms)
