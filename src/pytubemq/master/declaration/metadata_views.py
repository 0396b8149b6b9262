"""The views of a change of declared metadata, as the JSON API returns them."""

from __future__ import annotations

from typing import Any

import msgspec

from pytubemq.master.views import View


class FieldChange(View, frozen=True, kw_only=True):
    """A key of an entry before and after; None where it is not set."""

    key: str
    before: Any = None
    after: Any = None


class MetadataChange(View, frozen=True, kw_only=True):
    """A change of one entry: `create`, `change` or `remove`. `warning` says what is lost, or is left to do."""

    kind: str
    name: str
    action: str
    fields: list[FieldChange]
    warning: str = ""


class MetadataDiff(View, frozen=True, kw_only=True):
    """The changes that applying a declaration would make, or has made.

    `fingerprint` identifies the changes: a request that gives it as `expect` is refused if others would be made.
    `notes` name entries that stay although the declaration does not name them. `pending` names the Brokers that have
    not taken up changes which are stored.
    """

    changes: list[MetadataChange]
    fingerprint: str
    notes: list[str]
    applied: bool = False
    pending: list[str] = msgspec.field(default_factory=list)
