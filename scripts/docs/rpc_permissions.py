"""The tables of docs/reference/rpc-permissions.md, from the table that servers check calls by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.security.rpc_permissions import RPC_PERMISSIONS, Need
from pytubemq.wire.rpc.methods import METHODS, Service
from scripts.docs.markdown import table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.wire.rpc.methods import Method


def tables() -> dict[str, str]:
    """Return a table for the Master, and one for Brokers."""
    at_master = {method: needs for method, needs in RPC_PERMISSIONS.items() if _is_at_master(method)}
    at_broker = {method: needs for method, needs in RPC_PERMISSIONS.items() if not _is_at_master(method)}
    return {"master": _rows(at_master), "broker": _rows(at_broker)}


def _is_at_master(method: Method) -> bool:
    return Service.MASTER in METHODS[method].services


def _rows(found: Mapping[Method, tuple[Need, ...]]) -> str:
    rows = [(str(int(method)), f"`{method.name}`", "; ".join(map(_words, needs))) for method, needs in found.items()]
    return table(("number", "method", "needs"), rows)


def _words(need: Need) -> str:
    subject = need.subject.value
    return subject if need.operation is None else f"`{need.operation}` on {subject}"
