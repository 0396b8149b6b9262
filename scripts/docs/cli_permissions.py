"""The table of docs/reference/cli-permissions.md: what each command calls, and the permissions that these calls need.

The invariants: the needs are those that the servers check the calls by, so this table cannot contradict the others; a
command without a row fails the tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytubemq.admin.access.needs import Subject
from pytubemq.admin.access.route_permissions import ROUTE_PERMISSIONS
from pytubemq.security.permissions import ALLOWED_OPERATIONS, Operation, Permission, ResourceKind
from pytubemq.security.rpc_permissions import RPC_PERMISSIONS
from pytubemq.security.rpc_permissions import Subject as RpcSubject
from pytubemq.wire.rpc.methods import Method
from scripts.docs.markdown import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

API: Final = "/api/v1"
_ROUTES: Final = (Method.PRODUCER_REGISTER_P2M, Method.PRODUCER_HEARTBEAT_P2M, Method.PRODUCER_CLOSE_P2M)
"""A request for the partitions of a topic, as clients of every kind send it."""
_SEND: Final = (*_ROUTES, Method.SEND_MESSAGE_P2B, Method.SEND_PACKS_P2B)
_READ: Final = (*_ROUTES, Method.PARTITION_OFFSETS, Method.READ_RANGE_C2B)
_JOIN: Final = (
    Method.CONSUMER_REGISTER_C2M,
    Method.CONSUMER_HEARTBEAT_C2M,
    Method.CONSUMER_CLOSE_C2M,
    Method.CONSUMER_REGISTER_C2B,
    Method.CONSUMER_HEARTBEAT_C2B,
    Method.GET_MESSAGE_C2B,
    Method.CONSUMER_COMMIT_C2B,
)
_BROKER: Final = (Method.BROKER_REGISTER_B2M, Method.BROKER_HEARTBEAT_B2M, Method.BROKER_CLOSE_B2M)
_KINDS: Final = {
    Subject.ITS_TOPICS: ResourceKind.TOPIC,
    Subject.ITS_GROUPS: ResourceKind.GROUP,
    Subject.THE_CLUSTER: ResourceKind.CLUSTER,
}
_RPC_KINDS: Final = {
    RpcSubject.ITS_TOPICS: ResourceKind.TOPIC,
    RpcSubject.ITS_GROUP: ResourceKind.GROUP,
    RpcSubject.THE_CLUSTER: ResourceKind.CLUSTER,
}
_ON: Final = {
    ResourceKind.TOPIC: "each topic that it names",
    ResourceKind.GROUP: "each group that it names",
    ResourceKind.CLUSTER: "the cluster",
}


@dataclass(frozen=True, slots=True)
class Use:
    """A way to use a command, with the calls that it makes: routes of the JSON API, and methods of the protocol.

    `note` says which way it is. One that makes no call uses this machine alone. `names` are the kinds
    of what a call of it names: a need about any other kind does not arise.
    """

    calls: tuple[str | Method, ...] = ()
    note: str = ""
    names: tuple[ResourceKind, ...] = (ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLUSTER)


def _http(*calls: str, note: str = "") -> tuple[Use, ...]:
    return (Use(tuple(call.replace(" ", f" {API}", 1) for call in calls), note),)


_NO_GROUP: Final = (ResourceKind.TOPIC, ResourceKind.CLUSTER)
_LOCAL: Final = (Use(),)
_READING: Final = (Use(_READ, names=_NO_GROUP),)
_PIPELINE: Final = (
    Use(_READ, "reads its topics", _NO_GROUP),
    Use(_SEND, "with a sink or dead letters in a topic, on that topic"),
)
_MAKING: Final = Use((f"POST {API}/topics",), "where the topic does not exist")

COMMANDS: Final[Mapping[str, tuple[Use, ...]]] = {
    "audit list": _http("GET /audit"),
    "bench consume": (Use((*_ROUTES, *_JOIN)), Use(_SEND, "with `--fill`"), _MAKING),
    "bench e2e": (Use((*_SEND, *_JOIN)), _MAKING),
    "bench produce": (Use(_SEND), _MAKING),
    "broker story": _http("GET /brokers/{id}/story"),
    "cert make": _LOCAL,
    "cluster adopt": _http("POST /cluster/adopt"),
    "cluster alter": _http("GET /cluster/defaults", "PATCH /cluster/defaults"),
    "cluster apply": _http("POST /cluster/metadata:diff", "POST /cluster/metadata"),
    "cluster diff": _http("POST /cluster/metadata:diff"),
    "cluster export": _http("GET /cluster/metadata"),
    "cluster health": _http("GET /health"),
    "cluster import": _http("POST /cluster/metadata:diff", "POST /cluster/metadata"),
    "cluster info": _http("GET /cluster"),
    "cluster show": _http("GET /cluster/defaults"),
    "consume": (
        Use(_READ, "without a group", _NO_GROUP),
        Use((*_ROUTES, *_JOIN, f"GET {API}/groups/{{name}}"), "with a group"),
    ),
    "demo": (Use((), "a cluster of its own"),),
    "dev": (Use((), "a cluster of its own"),),
    "errors list": _LOCAL,
    "errors show": _LOCAL,
    "group history": (
        Use(
            (f"GET {API}/groups/{{name}}/resets", f"GET {API}/groups/{{name}}"),
            names=(ResourceKind.GROUP, ResourceKind.CLUSTER),
        ),
    ),
    "group list": _http("GET /groups"),
    "group reset": _http("POST /groups/{name}/resets", "GET /groups/{name}"),
    "group show": _http("GET /groups/{name}"),
    "group story": _http("GET /groups/{name}/story", "GET /groups/{name}"),
    "master migrate": (Use((), "the files and databases that it is given"),),
    "permission grant": _http("POST /users/{name}/permissions"),
    "permission list": (
        *_http("GET /users", note="of all users"),
        *_http("GET /users/{name}", note="of one user"),
    ),
    "permission revoke": _http("POST /users/{name}/permissions:revoke"),
    "permission test": _http("POST /users/{name}/permissions:test"),
    "pipeline backfill": _PIPELINE,
    "pipeline dlq drop": (Use(), Use(_READ, "with dead letters in a topic", _NO_GROUP)),
    "pipeline dlq list": (Use(), Use(_READ, "with dead letters in a topic", _NO_GROUP)),
    "pipeline dlq redrive": (
        Use(),
        Use(_READ, "with dead letters in a topic", _NO_GROUP),
        Use(_SEND, "with a sink in a topic, on that topic"),
    ),
    "pipeline dlq show": (Use(), Use(_READ, "with dead letters in a topic", _NO_GROUP)),
    "pipeline dry-run": _READING,
    "pipeline init": _LOCAL,
    "pipeline lint": _LOCAL,
    "pipeline plan": (*_READING, Use((), "with `--offline`")),
    "pipeline report": _LOCAL,
    "pipeline reset": _LOCAL,
    "pipeline run": _PIPELINE,
    "pipeline status": _LOCAL,
    "pipeline stop": _LOCAL,
    "pipeline tap": _READING,
    "pipeline test": _LOCAL,
    "produce": (Use(_SEND),),
    "profile add": _LOCAL,
    "profile list": _LOCAL,
    "profile remove": _LOCAL,
    "profile show": _LOCAL,
    "profile use": _LOCAL,
    "server run": (Use(_BROKER, "a Broker, as `security.user`"), Use((), "a Master")),
    "server settings": _LOCAL,
    "store export": _LOCAL,
    "store import": _LOCAL,
    "store inspect": _LOCAL,
    "store metadata": _LOCAL,
    "store repair": _LOCAL,
    "store verify": _LOCAL,
    "topic alter": (
        *_http("GET /topics/{name}", "PATCH /topics/{name}"),
        *_http("GET /cluster/defaults", note="with `--retention default`, without `--yes`"),
    ),
    "topic create": (
        *_http("POST /topics", "POST /topics:batch"),
        *_http("GET /topics", note="with `--exist-ok`"),
    ),
    "topic delete": _http("DELETE /topics/{name}"),
    "topic list": _http("GET /topics"),
    "topic show": _http("GET /topics/{name}"),
    "user create": _http("POST /users"),
    "user disable": _http("PATCH /users/{name}"),
    "user enable": _http("PATCH /users/{name}"),
    "user list": _http("GET /users"),
    "user password": _http("PATCH /users/{name}"),
    "user remove": _http("DELETE /users/{name}"),
    "user rotate": _http("POST /users/{name}/secret"),
    "user token create": _http("POST /users/{name}/tokens"),
    "user token list": _http("GET /users/{name}/tokens"),
    "user token revoke": _http("DELETE /users/{name}/tokens/{token}"),
}
"""All commands, each with the ways to use it."""


def permissions_of(use: Use) -> list[tuple[Operation, ResourceKind]]:
    """Return the permissions that the calls need, by kind; none that another one of them includes."""
    found = {need for call in use.calls for need in _needed(call) if need[1] in use.names}
    return sorted(
        (one for one in found if not any(other != one and _includes(other, one) for other in found)),
        key=lambda one: (list(ResourceKind).index(one[1]), list(Operation).index(one[0])),
    )


def subjects_of(use: Use) -> list[Subject]:
    """Return the needs of the calls that are no permission: to be a user, or a certain one."""
    found = {
        need.subject
        for call in use.calls
        if isinstance(call, str)
        for need in ROUTE_PERMISSIONS[call].needs
        if need.operation is None
    }
    if permissions_of(use) or found != {Subject.ANYONE}:
        found.discard(Subject.ANYONE)
    return sorted(found, key=list(Subject).index)


def tables() -> dict[str, str]:
    """Return the table of commands."""
    rows = [(f"`{command}`", use.note, _calls(use), _words(use)) for command, uses in COMMANDS.items() for use in uses]
    return {"commands": table(("command", "when", "calls", "needs"), rows)}


def _needed(call: str | Method) -> Iterator[tuple[Operation, ResourceKind]]:
    if isinstance(call, str):
        for need in ROUTE_PERMISSIONS[call].needs:
            if need.operation is not None:
                yield need.operation, _KINDS[need.subject]
        return
    for rpc in RPC_PERMISSIONS[call]:
        if rpc.operation is not None:
            yield rpc.operation, _RPC_KINDS[rpc.subject]


def _includes(one: tuple[Operation, ResourceKind], other: tuple[Operation, ResourceKind]) -> bool:
    """True if whoever was granted the one may do the other as well."""
    assert one[0] in ALLOWED_OPERATIONS[one[1]]
    return Permission(one[0], one[1], "*").covers(other[0], other[1], "any")


def _calls(use: Use) -> str:
    return ", ".join(f"`{call if isinstance(call, str) else call.name}`" for call in use.calls) or "local"


def _words(use: Use) -> str:
    if not use.calls:
        return "nothing"
    words = [f"`{operation}` on {_ON[kind]}" for operation, kind in permissions_of(use)]
    return "; ".join([*words, *(subject.value for subject in subjects_of(use))])
