"""The description of the API, generated from the types of its requests and responses."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from pytubemq.admin import bodies
from pytubemq.admin.problems import Problem
from pytubemq.master import views
from pytubemq.master.declaration.declaration import Declaration
from pytubemq.master.declaration.metadata_views import MetadataDiff
from pytubemq.master.stories.story_report import StoryView

_Json: TypeAlias = dict[str, Any]

_REFERENCE: Final = "#/components/schemas/{name}"
_TYPES: Final[dict[str, Any]] = {
    "health": views.Health,
    "cluster": views.ClusterView,
    "topics": list[views.TopicView],
    "topic": views.TopicDetail,
    "brokers": list[views.BrokerView],
    "groups": list[views.GroupView],
    "group": views.GroupDetail,
    "defaults": views.DefaultsView,
    "moved": views.GroupReset,
    "resets": views.ResetHistory,
    "new_topic": bodies.NewTopic,
    "new_topics": bodies.NewTopics,
    "created": views.TopicsCreated,
    "adoption": bodies.Adoption,
    "adopted": views.TopicsAdopted,
    "changed_topic": bodies.ChangedTopic,
    "changed_defaults": bodies.ChangedDefaults,
    "declaration": Declaration,
    "metadata_diff": MetadataDiff,
    "new_reset": bodies.NewReset,
    "removal": views.TopicRemoval,
    "user": views.UserView,
    "users": list[views.UserView],
    "secret": views.SecretView,
    "permission_test": views.PermissionTest,
    "new_user": bodies.NewUser,
    "new_secret": bodies.NewSecret,
    "changed_user": bodies.ChangedUser,
    "new_permission": bodies.NewPermission,
    "old_permission": bodies.OldPermission,
    "new_token": bodies.NewToken,
    "made_token": views.MadeToken,
    "token": views.TokenView,
    "tokens": list[views.TokenView],
    "sign_in": bodies.SignIn,
    "session": views.SessionView,
    "audit": list[views.AuditView],
    "story": StoryView,
    "problem": Problem,
}
"""The types of requests and responses, by the name that operations use for them."""
_NAME: Final[_Json] = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
_ID: Final[_Json] = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
_OF_TOPIC: Final[_Json] = {
    "name": "topic",
    "in": "query",
    "required": False,
    "schema": {"type": "string"},
    "description": "restrict the result to this topic; also for a group that does not exist",
}
_TOKEN: Final[_Json] = {"name": "token", "in": "path", "required": True, "schema": {"type": "string"}}
_AUDIT_FILTERS: Final[tuple[_Json, ...]] = tuple(
    {"name": name, "in": "query", "required": False, "schema": {"type": kind}, "description": about}
    for name, kind, about in (
        ("user", "string", "only what this user did"),
        ("target", "string", "only what concerns this: `topic orders`, or `orders`"),
        ("since", "string", "only what is not older: ISO 8601 with its zone"),
        ("limit", "integer", "the most entries, 1 to 1,000; 100 if left out"),
    )
)
_FORCE: Final[_Json] = {
    "name": "force",
    "in": "query",
    "required": False,
    "schema": {"type": "boolean"},
    "description": "remove it even if that locks out a Broker, or everyone from changing users",
}
_MERGE: Final[tuple[_Json, ...]] = tuple(
    {"name": name, "in": "query", "required": False, "schema": {"type": "boolean"}, "description": about}
    for name, about in (
        ("prune", "remove entries that a section does not name, and reset the keys that an entry does not"),
        ("only_new", "create the entries that do not exist, and change no other"),
    )
)
_EXPECT: Final[_Json] = {
    "name": "expect",
    "in": "query",
    "required": False,
    "schema": {"type": "string"},
    "description": "the fingerprint of the changes that were agreed to; others are refused",
}
_MADE: Final = "created, and ready to use"


def describe(version: str) -> _Json:
    """Return OpenAPI 3.1 for every route."""
    schemas, components = msgspec.json.schema_components(_TYPES.values(), ref_template=_REFERENCE)
    operations = _Operations(dict(zip(_TYPES, schemas, strict=True)))
    return {
        "openapi": "3.1.0",
        "info": {"title": "pytubemq", "version": version},
        "paths": {
            **_cluster_paths(operations),
            **_topic_paths(operations),
            **_group_paths(operations),
            **_user_paths(operations),
            **_identity_paths(operations),
        },
        "components": {"schemas": components},
    }


class _Operations:
    """Operations of the API, with the schemas of their requests and responses."""

    def __init__(self, schemas: dict[str, _Json]) -> None:
        self._schemas = schemas
        self._failure = self.response("problem", "the error and what to do about it")

    def get(self, kind: str, summary: str, **more: Any) -> _Json:
        """Describe an operation that answers with 200 and a `kind`."""
        return {"summary": summary, "responses": self.responses({"200": self.response(kind, summary)}), **more}

    def change(self, kind: str, body: str, summary: str, **more: Any) -> _Json:
        """Describe the same for an operation that takes a `body`."""
        return self.get(kind, summary, requestBody=self.body(body), **more)

    def responses(self, good: _Json) -> _Json:
        """Return these responses by status, and the one for every failure."""
        return {**good, "default": self._failure}

    def response(self, kind: str, description: str) -> _Json:
        """Describe a response that is a `kind`."""
        return {"description": description, "content": self._content(kind)}

    def body(self, kind: str) -> _Json:
        """Describe the body of a request, which is a `kind`."""
        return {"required": True, "content": self._content(kind)}

    def _content(self, kind: str) -> _Json:
        return {"application/json": {"schema": self._schemas[kind]}}


def _cluster_paths(operations: _Operations) -> _Json:
    get, change = operations.get, operations.change
    health = get("health", "the verdict with reasons")
    health["responses"]["503"] = operations.response("health", "not healthy")
    return {
        "/api/v1/health": {"get": health},
        "/api/v1/cluster": {"get": get("cluster", "Masters, Brokers, versions")},
        "/api/v1/cluster/defaults": {
            "get": get("defaults", "the cluster's defaults for topics"),
            "patch": change("defaults", "changed_defaults", "change the cluster's defaults for topics"),
        },
        "/api/v1/cluster/adopt": {
            "post": change("adopted", "adoption", "take over topics that Brokers hold and the Master does not know")
        },
        "/api/v1/cluster/metadata": {
            "get": get("declaration", "the metadata of the cluster, without secrets"),
            "post": change(
                "metadata_diff",
                "declaration",
                "change the metadata as declared, all of it or nothing",
                parameters=[*_MERGE, _EXPECT],
            ),
        },
        "/api/v1/cluster/metadata:diff": {
            "post": change("metadata_diff", "declaration", "what a declaration would change", parameters=list(_MERGE))
        },
        "/api/v1/brokers": {"get": get("brokers", "all Brokers")},
        "/api/v1/brokers/{id}/story": {
            "get": get("story", "what happened to a Broker, the newest first", parameters=[_ID, *_AUDIT_FILTERS[2:]])
        },
    }


def _topic_paths(operations: _Operations) -> _Json:
    get, change = operations.get, operations.change
    create = {
        "summary": "create a topic",
        "requestBody": operations.body("new_topic"),
        "responses": operations.responses({"201": operations.response("topic", _MADE)}),
    }
    batch = change("created", "new_topics", "create topics in one step, all or none; 200 if all existed already")
    batch["responses"]["201"] = operations.response("created", _MADE)
    delete = {
        "summary": "remove a topic with its messages from all Brokers",
        "parameters": [_NAME],
        "responses": operations.responses(
            {
                "200": operations.response("removal", "removed"),
                "202": operations.response("removal", "under way at the named Brokers"),
            }
        ),
    }
    return {
        "/api/v1/topics": {"get": get("topics", "all topics"), "post": create},
        "/api/v1/topics:batch": {"post": batch},
        "/api/v1/topics/{name}": {
            "get": get("topic", "one topic with its partitions", parameters=[_NAME]),
            "patch": change(
                "topic", "changed_topic", "change a topic; in force when the response comes", parameters=[_NAME]
            ),
            "delete": delete,
        },
    }


def _group_paths(operations: _Operations) -> _Json:
    get, change = operations.get, operations.change
    one = get("group", "one group: members, assignment, lag", parameters=[_NAME, _OF_TOPIC])
    resets = get("resets", "who moved the group, when, from where to where", parameters=[_NAME])
    reset = change("moved", "new_reset", "move the group, or show what would change", parameters=[_NAME])
    return {
        "/api/v1/groups": {"get": get("groups", "all groups with their lag")},
        "/api/v1/groups/{name}": {"get": one},
        "/api/v1/groups/{name}/story": {
            "get": get("story", "what happened to a group, the newest first", parameters=[_NAME, *_AUDIT_FILTERS[2:]])
        },
        "/api/v1/groups/{name}/resets": {"get": resets, "post": reset},
    }


def _user_paths(operations: _Operations) -> _Json:
    get, change = operations.get, operations.change
    create = {
        "summary": "create a user; the response has its secret, which is shown this once",
        "requestBody": operations.body("new_user"),
        "responses": operations.responses({"201": operations.response("secret", "the user and its secret")}),
    }
    of_one = {"parameters": [_NAME]}
    grant = change("user", "new_permission", "grant a permission", **of_one)
    revoke = change("user", "old_permission", "revoke a permission", **of_one)
    remove = get("user", "remove a user with its permissions", parameters=[_NAME, _FORCE])
    test = change("permission_test", "new_permission", "whether the user may do something", **of_one)
    return {
        "/api/v1/users": {"get": get("users", "all users and what they are allowed"), "post": create},
        "/api/v1/users/{name}": {
            "get": get("user", "one user and what it is allowed", **of_one),
            "patch": change("user", "changed_user", "enable or disable a user, or set its password", **of_one),
            "delete": remove,
        },
        "/api/v1/users/{name}/secret": {
            "post": change("secret", "new_secret", "give a user another secret, shown this once", **of_one)
        },
        "/api/v1/users/{name}/permissions": {"post": grant},
        "/api/v1/users/{name}/permissions:revoke": {"post": revoke},
        "/api/v1/users/{name}/permissions:test": {"post": test},
    }


def _identity_paths(operations: _Operations) -> _Json:
    get, change = operations.get, operations.change
    sign_in = {
        "summary": "sign in; the response sets the cookie of a session",
        "requestBody": operations.body("sign_in"),
        "responses": operations.responses({"201": operations.response("session", "signed in")}),
    }
    sign_out = {
        "summary": "end the session of the cookie",
        "responses": operations.responses({"204": {"description": "ended"}}),
    }
    create = change("made_token", "new_token", "make a bearer token, shown this once", parameters=[_NAME])
    create["responses"] = operations.responses({"201": operations.response("made_token", "the token")})
    return {
        "/api/v1/session": {
            "get": get("session", "the caller and its permissions"),
            "post": sign_in,
            "delete": sign_out,
        },
        "/api/v1/users/{name}/tokens": {
            "get": get("tokens", "the bearer tokens of a user", parameters=[_NAME]),
            "post": create,
        },
        "/api/v1/users/{name}/tokens/{token}": {
            "delete": get("token", "revoke a bearer token", parameters=[_NAME, _TOKEN])
        },
        "/api/v1/audit": {"get": get("audit", "who changed what, the newest first", parameters=list(_AUDIT_FILTERS))},
    }
