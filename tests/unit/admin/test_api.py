"""The JSON API: what it answers, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import httpx
import msgspec
import pytest

from pytubemq.admin.app import create_app
from pytubemq.admin.request_checks import host_name, is_local
from pytubemq.admin.webapi.authorization import Access
from pytubemq.errors import (
    AlreadyExistsError,
    Code,
    DiskFullError,
    GroupMismatchError,
    MessageError,
    NotFoundError,
    TubeError,
    UnavailableError,
    UnreachableError,
    UntoldError,
)
from pytubemq.master.views import GroupReset, PendingRemoval, TopicRemoval, TopicsCreated
from pytubemq.model.limits import MAX_HTTP_BODY_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.applications import Starlette

    from pytubemq.master.registry.topic_change import TopicChange
    from pytubemq.master.service import MasterService

pytestmark = pytest.mark.anyio


class Found(msgspec.Struct):
    name: str
    status: str = "healthy"


class Master:
    """Answers with what it was asked, or raises what it was given."""

    version = "1.2.3"

    def __init__(self) -> None:
        self.raises: BaseException | None = None
        self.status = "healthy"
        self.asked_topics: list[str | None] = []
        self.created: list[tuple[Any, ...]] = []
        self.altered: list[tuple[str, dict[str, Any]]] = []
        self.reset: list[tuple[Any, ...]] = []
        self.deleted: list[str] = []
        self.removes = True

    def _answer(self, name: str) -> Found:
        if self.raises is not None:
            raise self.raises
        return Found(name, self.status)

    async def create_topic(
        self, name: str, partitions: int = 1, *, max_message_bytes: int | None = None, delete_policy: str | None = None,
        durability: str | None = None,
    ) -> Found:  # fmt: skip
        self.created.append((name, partitions, max_message_bytes, delete_policy, durability))
        return self._answer(name)

    async def alter_topic(self, name: str, **change: Any) -> Found:
        self.altered.append((name, change))
        return self._answer(name)

    async def alter_defaults(self, **change: Any) -> Found:
        self.altered.append(("", change))
        return self._answer("defaults")

    async def defaults(self) -> Found:
        return self._answer("defaults")

    async def reset_group(self, name: str, topic: str, to: str, **how: Any) -> GroupReset:
        self.reset.append((name, topic, to, how))
        self._answer(name)
        return GroupReset(group=name, to=to, dry_run=how["dry_run"], partitions=[])

    async def group_resets(self, name: str) -> Found:
        return self._answer(name)

    async def delete_topic(self, name: str) -> TopicRemoval:
        self._answer(name)
        self.deleted.append(name)
        pending = [] if self.removes else [PendingRemoval(broker=2, why="away")]
        return TopicRemoval(name=name, removed=self.removes, pending=pending, record_kept=False)

    async def create_topics(self, changes: dict[str, TopicChange], *, exist_ok: bool = False) -> TopicsCreated:
        existing = [name for name in changes if exist_ok and name == "there"]
        return TopicsCreated(created=[name for name in changes if name not in existing], existing=existing)

    async def topics(self) -> list[Found]:
        return [self._answer("topics")]

    async def topic(self, name: str) -> Found:
        return self._answer(name)

    async def brokers(self) -> list[Found]:
        return [self._answer("brokers")]

    async def groups(self) -> list[Found]:
        return [self._answer("groups")]

    async def group(self, name: str, *, topic: str | None = None) -> Found:
        self.asked_topics.append(topic)
        return self._answer(name)

    async def health(self) -> Found:
        return self._answer("health")

    async def cluster(self) -> Found:
        return self._answer("cluster")


def app_of(master: Master, **options: Any) -> Starlette:
    """The application of this stand-in for a Master."""
    return create_app(cast("MasterService", master), **options)


@pytest.fixture
def master() -> Master:
    return Master()


@pytest.fixture
async def api(master: Master) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app_of(master, hosts=["master.example"]), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080/api/v1") as client:
        yield client


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/health", "health"),
        ("/cluster", "cluster"),
        ("/topics", "topics"),
        ("/topics/demo", "demo"),
        ("/brokers", "brokers"),
        ("/groups", "groups"),
        ("/groups/a-b_c", "a-b_c"),
        ("/groups/a-b_c/resets", "a-b_c"),
        ("/cluster/defaults", "defaults"),
    ],
)
async def test_every_thing_can_be_read(api: httpx.AsyncClient, path: str, name: str) -> None:
    answer = await api.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    found = answer.json()
    assert (found[0] if isinstance(found, list) else found)["name"] == name


async def test_a_group_may_be_asked_for_as_a_topic_sees_it(api: httpx.AsyncClient, master: Master) -> None:
    assert (await api.get("/groups/g")).status_code == 200
    assert (await api.get("/groups/g?topic=demo")).status_code == 200
    assert master.asked_topics == [None, "demo"]


async def test_bad_health_is_503_with_the_same_object(api: httpx.AsyncClient, master: Master) -> None:
    master.status = "degraded"
    answer = await api.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (503, "degraded")


async def test_a_topic_is_made(api: httpx.AsyncClient, master: Master) -> None:
    body = {"name": "demo", "partitions": 4, "delete_policy": "delete,1h"}
    answer = await api.post("/topics", json=body)
    assert (answer.status_code, answer.json()["name"]) == (201, "demo")
    assert master.created == [("demo", 4, None, "delete,1h", None)]


@pytest.mark.parametrize(
    ("retention", "policy"), [("72h,10gb", "delete,72h,10GB"), ("forever", "keep"), ("Default", "default")]
)
async def test_a_retention_is_a_policy_in_short(
    api: httpx.AsyncClient, master: Master, retention: str, policy: str
) -> None:
    body = {"name": "demo", "retention": retention, "durability": "memory"}
    assert (await api.post("/topics", json=body)).status_code == 201
    assert master.created == [("demo", 1, None, policy, "memory")]
    assert (await api.patch("/topics/demo", json={"retention": retention})).status_code == 200
    assert (await api.patch("/cluster/defaults", json={"retention": retention})).status_code == 200
    same = {"max_message_bytes": None, "delete_policy": policy, "durability": None}
    assert master.altered == [("demo", {"partitions": None, **same}), ("", same)]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"retention": "72h", "delete_policy": "delete,72h"}, "both retention and delete_policy"),
        ({"retention": "soon"}, "not a retention: 'soon'"),
    ],
)
async def test_a_retention_that_is_none_changes_nothing(
    api: httpx.AsyncClient, master: Master, body: dict[str, str], says: str
) -> None:
    for path in ("/topics/demo", "/cluster/defaults"):
        answer = await api.patch(path, json=body)
        assert answer.status_code == 400
        assert says in answer.json()["message"]
    assert master.altered == []


async def test_a_group_is_moved(api: httpx.AsyncClient, master: Master) -> None:
    body = {"topic": "demo", "to": "-10m", "partitions": ["1:0"], "user": "ann"}
    assert (await api.post("/groups/g/resets", json=body)).json()["group"] == "g"
    assert (await api.post("/groups/g/resets", json={"topic": "demo", "to": "latest", "dry_run": True})).is_success
    assert master.reset == [
        ("g", "demo", "-10m", {"partitions": ["1:0"], "dry_run": False, "user": "ann"}),
        ("g", "demo", "latest", {"partitions": [], "dry_run": True}),
    ]


async def test_a_topic_is_removed_or_on_its_way_out(api: httpx.AsyncClient, master: Master) -> None:
    answer = await api.delete("/topics/demo")
    assert (answer.status_code, answer.json()["removed"]) == (200, True)
    master.removes = False
    answer = await api.delete("/topics/demo")
    assert (answer.status_code, answer.json()["pending"]) == (202, [{"broker": 2, "why": "away"}])
    master.raises = NotFoundError("no topic demo", code=Code.NOT_FOUND)
    assert (await api.delete("/topics/demo")).status_code == 404
    assert master.deleted == ["demo", "demo"]


@pytest.mark.parametrize(
    ("error", "status", "code", "exit_code"),
    [
        (NotFoundError("no topic x", hint="look", code=Code.NOT_FOUND), 404, 404, 3),
        (AlreadyExistsError("topic x exists already", code=Code.BAD_REQUEST), 409, 400, 4),
        (MessageError("not a topic name", code=400), 400, 400, 1),
        (UnavailableError("no Broker is online", code=503), 503, 503, 4),
        (UntoldError("whether there is a group x cannot be told", code=503), 503, 503, 5),
        (UnreachableError("nothing answers"), 504, 504, 5),
        (GroupMismatchError("differs", code=425), 409, 425, 4),
        (DiskFullError("no space left"), 507, 507, 1),
        (TubeError("odd"), 500, 500, 1),
    ],
)
async def test_errors_have_one_shape(
    api: httpx.AsyncClient, master: Master, error: TubeError, status: int, code: int, exit_code: int
) -> None:
    master.raises = error
    answer = await api.get("/topics/x")
    assert answer.status_code == status
    problem = answer.json()
    assert set(problem) == {"code", "message", "why", "try", "retriable", "exit"}
    assert (problem["code"], problem["message"], problem["exit"]) == (code, error.message, exit_code)
    assert (problem["try"], problem["retriable"]) == (error.hint or "", error.retriable)


async def test_a_fault_of_ours_tells_nothing_of_the_inside(api: httpx.AsyncClient, master: Master) -> None:
    master.raises = ZeroDivisionError("secret")
    answer = await api.get("/topics")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.json()["exit"] == 1


@pytest.mark.parametrize(
    ("body", "says", "hint"),
    [
        (b'{"name": "x", "partitons": 3}', "unknown key 'partitons'", "did you mean 'partitions'?"),
        (b'{"name": "x", "zzz": 3}', "unknown key 'zzz'", "known keys: name, partitions"),
        (b'{"partitions": 3}', "missing required field `name`", "openapi"),
        (b'{"name": "x", "partitions": "3"}', "Expected `int`", "openapi"),
        (b"[1]", "not a JSON object", '{"name": "demo"}'),
        (b"{", "not JSON", "one JSON object"),
    ],
)
async def test_a_bad_body_is_explained(
    api: httpx.AsyncClient, master: Master, body: bytes, says: str, hint: str
) -> None:
    answer = await api.post("/topics", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert says in answer.json()["message"]
    assert hint in answer.json()["try"]
    assert master.created == []


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded"])
async def test_only_json_that_says_so_is_taken(
    api: httpx.AsyncClient, master: Master, content_type: str | None
) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    answer = await api.post("/topics", content=b'{"name": "x"}', headers=headers)
    assert answer.status_code == 415
    assert master.created == []


async def test_a_body_is_bounded(api: httpx.AsyncClient) -> None:
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while True:
            read += 1
            yield b" " * 65536

    answer = await api.post("/topics", content=endless(), headers={"content-type": "application/json"})
    assert answer.status_code == 413
    assert read <= MAX_HTTP_BODY_BYTES // 65536 + 2


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8080", 200),
        ("LOCALHOST", 200),
        ("127.0.0.2", 200),
        ("[::1]:8080", 200),
        ("master.example", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
        ("10.0.0.1", 421),
    ],
)
async def test_only_our_own_host_is_served(api: httpx.AsyncClient, host: str, status: int) -> None:
    answer = await api.get("/cluster", headers={"host": host})
    assert answer.status_code == status
    if status != 200:
        assert answer.json()["code"] == 421


@pytest.mark.parametrize(("host", "status"), [("10.0.0.1:80", 200), ("[fe80::1]", 200), ("evil.example", 421)])
async def test_a_server_that_listens_everywhere_takes_any_address_but_no_name(
    master: Master, host: str, status: int
) -> None:
    transport = httpx.ASGITransport(app_of(master, hosts=["0.0.0.0"]))
    async with httpx.AsyncClient(transport=transport, base_url="http://x/api/v1") as client:
        assert (await client.get("/cluster", headers={"host": host})).status_code == status


async def test_what_is_not_there_says_where_to_look(api: httpx.AsyncClient) -> None:
    missing = await api.get("/nosuch")
    assert (missing.status_code, missing.json()["exit"]) == (404, 3)
    assert "/webapi.htm" in missing.json()["try"]
    wrong = await api.delete("/topics")
    assert (wrong.status_code, wrong.json()["code"]) == (405, 405)
    assert wrong.headers["allow"] == "GET, HEAD, POST"
    assert "openapi.json" in wrong.json()["try"]


async def test_the_description_covers_every_route(api: httpx.AsyncClient, master: Master) -> None:
    description = (await api.get("/openapi.json")).json()
    assert description["info"]["version"] == master.version
    routes = {route.path for route in app_of(master).routes} - {"/api/v1/openapi.json"}  # type: ignore[attr-defined]
    assert set(description["paths"]) == routes
    assert set(description["paths"]["/api/v1/topics"]) == {"get", "post"}
    assert set(description["paths"]["/api/v1/topics/{name}"]) == {"get", "patch", "delete"}
    assert set(description["paths"]["/api/v1/groups/{name}/resets"]) == {"get", "post"}
    assert "try" in description["components"]["schemas"]["Problem"]["properties"]
    assert "partition_list" in description["components"]["schemas"]["TopicDetail"]["properties"]


def test_host_names() -> None:
    assert host_name("[::1]:80") == "::1"
    assert host_name("A.b:80") == "a.b"
    assert not is_local("localhost.evil.example")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Basic s3cret"}, 401),
        ({"Authorization": "Bearer s3cret"}, 201),
    ],
)
async def test_a_change_needs_the_token_where_there_is_one(
    master: Master, headers: dict[str, str], status: int
) -> None:
    app = app_of(master, access=Access("s3cret"))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8080/api/v1", headers=headers
    ) as client:
        assert (await client.get("/topics")).status_code == 200
        answer = await client.post("/topics", json={"name": "demo"})
        assert answer.status_code == status
        assert bool(master.created) == (status == 201)
        answer = await client.delete("/topics/demo")
        assert (answer.status_code, bool(master.deleted)) == ((200, True) if status == 201 else (401, False))
        for method, path, body in (
            ("PATCH", "/topics/demo", {}),
            ("PATCH", "/cluster/defaults", {}),
            ("POST", "/groups/g/resets", {"topic": "demo", "to": "latest"}),
        ):
            found = await client.request(method, path, json=body)
            assert found.status_code == (200 if status == 201 else 401), path
        look = {"topic": "demo", "to": "latest", "dry_run": True}
        assert (await client.post("/groups/g/resets", json=look)).status_code == 200, "it changes nothing"
        assert "s3cret" not in answer.text


@pytest.mark.parametrize(("local", "status"), [(True, 201), (False, 401)])
async def test_without_a_token_only_this_machine_changes_something(master: Master, *, local: bool, status: int) -> None:
    app = app_of(master, access=Access(local=local))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8080/api/v1") as client:
        answer = await client.post("/topics", json={"name": "demo"})
    assert (answer.status_code, bool(master.created)) == (status, local)


async def test_many_topics_in_one_call(api: httpx.AsyncClient) -> None:
    topics = [{"name": "there"}, {"name": "b", "partitions": 3, "retention": "1h"}]
    answer = await api.post("/topics:batch", json={"topics": topics, "exist_ok": True})
    assert (answer.status_code, answer.json()) == (201, {"created": ["b"], "existing": ["there"]})
    answer = await api.post("/topics:batch", json={"topics": topics[:1], "exist_ok": True})
    assert answer.status_code == 200
    for more, says in (
        ({"name": "b"}, "b is named twice"),
        ({"name": "c", "partitions": 0}, "topic c: partitions is 0"),
    ):
        answer = await api.post("/topics:batch", json={"topics": [*topics, more]})
        assert answer.status_code == 400
        assert says in answer.text
