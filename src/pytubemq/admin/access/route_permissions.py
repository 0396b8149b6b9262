"""The permission that each route of the Master and of a Broker needs.

The invariant: a route without a row here is not served, since an application with such a route does not start.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pytubemq.admin.access.needs import (
    ADMINISTER,
    ANYONE,
    CHANGE_TOPIC,
    ITS_METHOD,
    ITS_USER,
    JOIN_GROUP,
    LISTED,
    OPERATE,
    READ_TOPIC,
    SEE_CLUSTER,
    SEE_GROUP,
    SEE_TOPIC,
    SIGNED_IN,
    Row,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_API: Final = "/api/v1"
_USER: Final = f"{_API}/users/{{name}}"
_CHANGE_USERS: Final = Row((ADMINISTER,), guarded=True)

ROUTE_PERMISSIONS: Final[Mapping[str, Row]] = MappingProxyType(
    {
        "GET /": Row((ANYONE,)),
        "GET /metrics": Row((ANYONE,)),
        f"GET {_API}/health": Row((ANYONE,)),
        f"GET {_API}/openapi.json": Row((ANYONE,)),
        f"GET {_API}/session": Row((SIGNED_IN,)),
        f"POST {_API}/session": Row((ANYONE,)),
        f"DELETE {_API}/session": Row((SIGNED_IN,)),
        f"GET {_API}/cluster": Row((SEE_CLUSTER,)),
        f"GET {_API}/cluster/defaults": Row((SEE_CLUSTER,)),
        f"PATCH {_API}/cluster/defaults": Row((OPERATE,), guarded=True),
        f"POST {_API}/cluster/adopt": Row((OPERATE,), guarded=True),
        f"GET {_API}/cluster/metadata": Row((ADMINISTER,), guarded=True),
        f"POST {_API}/cluster/metadata": Row((ADMINISTER,), guarded=True),
        f"POST {_API}/cluster/metadata:diff": Row((ADMINISTER,), guarded=True, asks=True),
        f"GET {_API}/brokers": Row((SEE_CLUSTER,)),
        f"GET {_API}/brokers/{{id}}/story": Row((SEE_CLUSTER,)),
        f"GET {_API}/topics": Row((LISTED,)),
        f"POST {_API}/topics": Row((CHANGE_TOPIC,), guarded=True),
        f"POST {_API}/topics:batch": Row((CHANGE_TOPIC,), guarded=True),
        f"GET {_API}/topics/{{name}}": Row((SEE_TOPIC,)),
        f"PATCH {_API}/topics/{{name}}": Row((CHANGE_TOPIC,), guarded=True),
        f"DELETE {_API}/topics/{{name}}": Row((CHANGE_TOPIC,), guarded=True),
        f"GET {_API}/groups": Row((LISTED,)),
        f"GET {_API}/groups/{{name}}": Row((SEE_TOPIC, SEE_GROUP)),
        f"GET {_API}/groups/{{name}}/resets": Row((SEE_GROUP,)),
        f"GET {_API}/groups/{{name}}/story": Row((SEE_GROUP,)),
        f"POST {_API}/groups/{{name}}/resets": Row((READ_TOPIC, JOIN_GROUP), guarded=True),
        f"GET {_API}/users": _CHANGE_USERS,
        f"POST {_API}/users": _CHANGE_USERS,
        f"GET {_USER}": Row((ITS_USER,), guarded=True),
        f"PATCH {_USER}": _CHANGE_USERS,
        f"DELETE {_USER}": _CHANGE_USERS,
        f"POST {_USER}/secret": _CHANGE_USERS,
        f"POST {_USER}/permissions": _CHANGE_USERS,
        f"POST {_USER}/permissions:revoke": _CHANGE_USERS,
        f"POST {_USER}/permissions:test": Row((ADMINISTER,), guarded=True, asks=True),
        f"GET {_USER}/tokens": Row((ITS_USER,), guarded=True),
        f"POST {_USER}/tokens": Row((ITS_USER,), guarded=True),
        f"DELETE {_USER}/tokens/{{token}}": Row((ITS_USER,), guarded=True),
        f"GET {_API}/audit": Row((ADMINISTER,), guarded=True),
        "GET /webapi.htm": Row((ITS_METHOD,)),
        "POST /webapi.htm": Row((ITS_METHOD,)),
        "GET /master.htm": Row((ITS_METHOD,)),
        "POST /master.htm": Row((ITS_METHOD,)),
    }
)
"""All routes of a Master. Monitors ask for health and metrics, so these are for anyone who can connect."""

BROKER_ROUTE_PERMISSIONS: Final[Mapping[str, Row]] = MappingProxyType(
    {
        "GET /metrics": Row((ANYONE,)),
        "GET /health": Row((ANYONE,)),
        "GET /{path:path}": Row((ITS_METHOD,)),
        "POST /{path:path}": Row((ITS_METHOD,)),
    }
)
"""All routes of a Broker."""
