"""The description of the API, made from the types it answers with."""

from __future__ import annotations

from typing import Any

import msgspec

from pytubemq.admin import bodies
from pytubemq.admin.problems import Problem
from pytubemq.master import views

_REFERENCE = "#/components/schemas/{name}"


def describe(version: str) -> dict[str, Any]:
    """OpenAPI 3.1 for every route."""
    kinds: dict[str, Any] = {
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
        "new_reset": bodies.NewReset,
        "removal": views.TopicRemoval,
        "problem": Problem,
    }
    schemas, components = msgspec.json.schema_components(kinds.values(), ref_template=_REFERENCE)
    schema = dict(zip(kinds, schemas, strict=True))
    failure = {"description": "what was wrong and what to do", "content": _content(schema["problem"])}
    name = [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]

    of_topic = [
        *name,
        {
            "name": "topic",
            "in": "query",
            "required": False,
            "schema": {"type": "string"},
            "description": "say what this topic is for the group, also of a group that there is not",
        },
    ]

    def get(kind: str, summary: str, **more: Any) -> dict[str, Any]:
        good = {"description": summary, "content": _content(schema[kind])}
        return {"summary": summary, "responses": {"200": good, "default": failure}, **more}

    def change(kind: str, body: str, summary: str, **more: Any) -> dict[str, Any]:
        return get(kind, summary, requestBody={"required": True, "content": _content(schema[body])}, **more)

    health = get("health", "the verdict with reasons")
    health["responses"]["503"] = {"description": "not healthy", "content": _content(schema["health"])}
    made = {"description": "made, and ready to use", "content": _content(schema["topic"])}
    create = {
        "summary": "make a topic",
        "requestBody": {"required": True, "content": _content(schema["new_topic"])},
        "responses": {"201": made, "default": failure},
    }
    batch = change("created", "new_topics", "make topics in one step, all or none; 200 when all were there already")
    batch["responses"]["201"] = {"description": "made, and ready to use", "content": _content(schema["created"])}
    delete = {
        "summary": "remove a topic with its messages from all Brokers",
        "parameters": name,
        "responses": {
            "200": {"description": "removed", "content": _content(schema["removal"])},
            "202": {"description": "under way at the Brokers named", "content": _content(schema["removal"])},
            "default": failure,
        },
    }
    topic = get("topic", "one topic with its partitions", parameters=name)
    alter = change("topic", "changed_topic", "change a topic; in force when this is answered", parameters=name)
    defaults = {
        "get": get("defaults", "the cluster's defaults for topics"),
        "patch": change("defaults", "changed_defaults", "change that"),
    }
    resets = {
        "get": get("resets", "who moved the group, when, from where to where", parameters=name),
        "post": change("moved", "new_reset", "move the group, or see what would become of it", parameters=name),
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "pytubemq", "version": version},
        "paths": {
            "/api/v1/health": {"get": health},
            "/api/v1/cluster": {"get": get("cluster", "Masters, Brokers, versions")},
            "/api/v1/topics": {"get": get("topics", "all topics"), "post": create},
            "/api/v1/cluster/defaults": defaults,
            "/api/v1/cluster/adopt": {
                "post": change("adopted", "adoption", "take over topics that Brokers hold and the Master does not know")
            },
            "/api/v1/topics:batch": {"post": batch},
            "/api/v1/topics/{name}": {"get": topic, "patch": alter, "delete": delete},
            "/api/v1/brokers": {"get": get("brokers", "all Brokers")},
            "/api/v1/groups": {"get": get("groups", "all groups with their lag")},
            "/api/v1/groups/{name}": {"get": get("group", "one group: members, assignment, lag", parameters=of_topic)},
            "/api/v1/groups/{name}/resets": resets,
        },
        "components": {"schemas": components},
    }


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
