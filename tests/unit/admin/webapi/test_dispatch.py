"""From a request to a method and back: the order of the checks, the envelope, and hostile requests."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any, TypeAlias

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from pytubemq.admin.access.gate import Gate
from pytubemq.admin.webapi.authorization import Access
from pytubemq.admin.webapi.call_gate import CallGate
from pytubemq.admin.webapi.dispatch import WebApi, unused_note
from pytubemq.admin.webapi.envelope import GOOD, Reply, failure, outcomes, rows, success, with_note
from pytubemq.admin.webapi.kinds import GROUP, TOPIC, Int, ListOf, Text
from pytubemq.admin.webapi.long_responses import ROWS_A_TURN, Turns
from pytubemq.admin.webapi.method import Method, Table
from pytubemq.admin.webapi.params import OPS_ADD, Args, CallError, Param, json_set
from pytubemq.errors import BadRequestError
from pytubemq.master.registry.outcome import Outcome
from pytubemq.model.limits import MAX_HTTP_BODY_BYTES, MAX_LONG_ANSWERS, MAX_WEBAPI_PARAMS

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

pytestmark = pytest.mark.anyio

TOKEN = "s3cret-of-the-house-and-of-all"
NOW_MS = 1_700_000_000_000


class Server:
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Args] = []


async def query(server: Server, args: Args) -> Reply:
    server.asked.append(args)
    return rows([{"text": args.get("disableCsmRsn", ""), "groups": args.get("groupName", ())}])


async def change(server: Server, args: Args) -> Reply:
    server.asked.append(args)
    return outcomes([Outcome(("g", "t")), Outcome(("h", "t"), 401, "no such")], ("groupName", "topicName"))


async def fail(_: Server, args: Args) -> Reply:
    match args.get("disableCsmRsn"):
        case "call":
            raise CallError("not so", code=403)
        case "tube":
            raise BadRequestError("no room", hint="make some", code=400)
        case _:
            raise RuntimeError("/etc/secret " + TOKEN)


async def long(server: Server, args: Args) -> Reply:
    turns = Turns()
    for _ in range(3):
        server.asked.append(args)
        await turns.took(ROWS_A_TURN)
    return success()


async def nothing(_: Server, __: Args) -> Reply:
    return success()


TABLE = Table[Server](
    (
        Method("ask", "", False, (Param("groupName", ListOf(GROUP)), Param("disableCsmRsn", Text(100))), query),
        Method(
            "change", "", True, (*OPS_ADD, Param("topicName", TOPIC, required=True)), change, aliases=("bath_change",)
        ),
        Method("many", "", True, (*OPS_ADD, json_set("groupCsmJsonSet", Param("groupName", GROUP, True))), change),
        Method("long", "", False, (Param("groupName", GROUP),), long),
        Method("number", "", False, (Param("regionId", Int(1, 9)),), nothing),
        Method("fail", "", False, (Param("disableCsmRsn", Text(100)),), fail),
    ),
    {"gone": "look elsewhere"},
)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def client(server: Server) -> Callable[..., httpx.AsyncClient]:
    def make(access: Access | None = None, **headers: str) -> httpx.AsyncClient:
        api = WebApi(TABLE, server, CallGate(Gate(access or Access()), {}), wall_ms=lambda: NOW_MS)
        app = Starlette(routes=[Route("/webapi.htm", api.answer, methods=["GET", "POST"])])
        return httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8080", headers=headers, timeout=10
        )

    return make


Make: TypeAlias = "Callable[..., httpx.AsyncClient]"


async def call(client: httpx.AsyncClient, query: str = "", **params: str) -> dict[str, Any]:
    url = f"/webapi.htm?{query}" if query else "/webapi.htm"
    answer = await (client.get(url, params=params) if params else client.get(url))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json;charset=utf-8"
    found = answer.json()
    assert found.keys() >= {"result", "errCode", "errMsg"}
    return dict(found)


async def test_rows_and_outcomes_come_in_the_originals_envelope(client: Make) -> None:
    assert await call(client(), method="ask", group="b,a,,b") == {
        "result": True,
        "errCode": 0,
        "errMsg": "OK",
        "data": [{"text": "", "groups": ["a", "b"]}],
        "count": 1,
    }
    found = await call(client(), method="change", topicName="t", createUser="me")
    assert (found["result"], found["errCode"], found["count"]) == (True, 0, 2)
    assert found["data"] == [
        {"groupName": "g", "topicName": "t", "success": True, "errCode": 200, "errInfo": "Ok!"},
        {"groupName": "h", "topicName": "t", "success": False, "errCode": 401, "errInfo": "no such"},
    ]
    assert await call(client(), method="number") == {"result": True, "errCode": 0, "errMsg": "OK", "data": []}


async def test_long_answers_are_made_one_after_the_other_and_short_ones_meanwhile(client: Make, server: Server) -> None:
    one = client()
    await asyncio.gather(
        *(call(one, method="long", groupName=name) for name in "ab"), call(one, method="ask", group="s")
    )
    order = [args["groupName"] for args in server.asked]
    assert [name for name in order if name in ("a", "b")] in (list("abaabb"), list("babbaa"))
    assert order.index(("s",)) < order.index("b", order.index("b") + 1), "a short one does not wait for them"


async def test_only_so_many_long_answers_wait(client: Make, server: Server) -> None:
    async with client() as one:
        found = await asyncio.gather(
            *(call(one, method="long", groupName=f"g{number}") for number in range(MAX_LONG_ANSWERS + 5))
        )
        refused = [answer for answer in found if not answer["result"]]
        assert [answer["errCode"] for answer in refused] == [503] * len(refused)
        assert 0 < len(refused) < 5
        assert "already queued" in refused[0]["errMsg"]
        assert (await call(one, method="long"))["result"]  # there is room again


@pytest.mark.parametrize(("early", "turns"), [(True, 0), (False, 1)])
async def test_no_long_answer_is_made_for_a_peer_that_has_gone(server: Server, *, early: bool, turns: int) -> None:
    api = WebApi(TABLE, server, CallGate(Gate(Access()), {}), wall_ms=lambda: NOW_MS)
    ended: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect" if server.asked or early else "http.request"}

    async def send(message: MutableMapping[str, Any]) -> None:
        ended.append(message)

    app = Starlette(routes=[Route("/webapi.htm", api.answer)])
    scope = {"type": "http", "method": "GET", "path": "/webapi.htm", "query_string": b"method=long", "headers": []}
    await app(scope, receive, send)
    assert len(server.asked) == turns
    assert ended


async def test_get_and_post_are_one(client: Make, server: Server) -> None:
    answer = await client().post("/webapi.htm?method=change", data={"topic": '" t "', "cur": "me", "type": "op_query"})
    assert answer.json()["result"]
    assert (server.asked[0]["topicName"], server.asked[0].audit.user) == ("t", "me")
    answer = await client().post("/webapi.htm?method=bath_change&topicName=t&createUser=me")
    assert answer.json()["result"]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", "parameter method is missing"),
        ("method=", "parameter method is missing"),
        ("method=nonsense", "no such method as 'nonsense': admin_get_methods"),
        ("method=bath_chnge", "did you mean bath_change?"),
        ("method=gone", "gone is not offered: look elsewhere"),
        ("method=change&createUser=me", "parameter topicName is missing: give topicName or topic"),
        ("method=change&createUser=me&topicName=+", "parameter topicName is missing"),
        ("method=change&createUser=1&topicName=t", "parameter createUser is '1'"),
        ("method=change&createUser=me&topicName=" + "t" * 65, "has 65 characters, at most 64"),
        ("method=change&createUser=me&topicName=t&topicName=u", "parameter 'topicName' is given twice"),
        ("method=change&createUser=me&topicName=t&topic=u", "topicName is also given as topic, with another value"),
        ("method=change&createUser=me&topicName=t&createUsr=me", "did you mean createUser?"),
        ("method=number&regionId=0", "regionId is 0: it must be at least 1"),
        ("method=number&regionId=10", "regionId is 10: it must be at most 9"),
        ("method=number&regionId=1.5", "regionId is '1.5'"),
        ("method=number&regionId=" + "9" * 5000, "regionId is '999"),
        ("method=ask&groupName=%FF%FE", "not UTF-8"),
        ("method=ask&disableCsmRsn=a%00b", "disableCsmRsn is 'a\\x00b'"),
        ("&".join(f"p{number}=1" for number in range(MAX_WEBAPI_PARAMS + 1)), "more than 128 parameters"),
        ("method=many&createUser=me&groupCsmJsonSet=[{]", "groupCsmJsonSet is not JSON"),
        ("method=many&createUser=me&groupCsmJsonSet={}", "groupCsmJsonSet must be a JSON array"),
        ("method=many&createUser=me&groupCsmJsonSet=[]", "has 0 objects"),
        ('method=many&createUser=me&groupCsmJsonSet=[{"group":"a"},{}]', "groupCsmJsonSet[1]: parameter groupName is"),
        ('method=many&createUser=me&groupCsmJsonSet=[{"group":"a","group":"b"}]', "key 'group' twice"),
        ('method=many&createUser=me&groupCsmJsonSet=[{"group":["a"]}]', "groupCsmJsonSet[0]: parameter group is"),
        ("method=many&createUser=me&groupCsmJsonSet=" + "[" * 20_000, "nested too deep"),
    ],
)
async def test_bad_input_is_refused_with_its_name(client: Make, server: Server, query: str, text: str) -> None:
    found = await call(client(), query)
    assert (found["result"], found["errCode"]) == (False, 400)
    assert text in found["errMsg"]
    assert "data" not in found
    assert len(found["errMsg"]) < 400
    assert server.asked == []


async def test_the_token_is_asked_before_the_parameters_and_after_the_method(client: Make) -> None:
    found = await call(client(Access(TOKEN)), method="nonsense")
    assert "no such method" in found["errMsg"]
    found = await call(client(Access(TOKEN)), method="change")
    assert "token is missing" in found["errMsg"]
    found = await call(client(Access(TOKEN)), method="change", authToken=TOKEN)
    assert "createUser is missing" in found["errMsg"]


async def test_the_token_comes_in_a_header_a_form_or_the_address(client: Make) -> None:
    access = Access(TOKEN)
    args = {"topicName": "t", "createUser": "me"}
    for name in ("confModAuthToken", "authToken"):
        assert (await call(client(access), method="change", **args, **{name: TOKEN}))["result"]
        answer = await client(access).post("/webapi.htm?method=change", data={**args, name: TOKEN})
        assert answer.json()["result"]
    assert (await call(client(access, authorization=f"Bearer {TOKEN}"), method="change", **args))["result"]
    for wrong in (TOKEN[:-1], TOKEN + "x", "é" * 10, "x" * 10_000):
        found = await call(client(access), method="change", **args, authToken=wrong)
        assert not found["result"]
        assert wrong[:8] not in found["errMsg"]


async def test_the_address_can_be_forbidden_to_hold_the_token(client: Make) -> None:
    access = Access(TOKEN, in_url=False)
    args = {"topicName": "t", "createUser": "me"}
    found = await call(client(access), method="change", **args, authToken=TOKEN)
    assert "is in the address" in found["errMsg"]
    answer = await client(access).post("/webapi.htm?method=change", data={**args, "authToken": TOKEN})
    assert answer.json()["result"]
    assert (await call(client(access, authorization=f"bearer {TOKEN}"), method="change", **args))["result"]


async def test_every_token_of_a_request_counts_wherever_it_stands(client: Make, server: Server) -> None:
    args = {"method": "change", "topicName": "t", "createUser": "me"}
    strict = client(Access(TOKEN, in_url=False), authorization=f"Bearer {TOKEN}")
    assert "is in the address" in (await call(strict, **args, confModAuthToken=TOKEN))["errMsg"]
    bearer = client(Access(TOKEN), authorization=f"Bearer {TOKEN}")
    assert "token is wrong" in (await call(bearer, **args, authToken="abc"))["errMsg"]
    both = {"confModAuthToken": TOKEN, "authToken": "abc"}
    assert "token is wrong" in (await call(client(Access(TOKEN)), **args, **both))["errMsg"]
    answer = await client(Access(TOKEN)).post("/webapi.htm", data={**args, **both})
    assert "token is wrong" in answer.json()["errMsg"]
    assert server.asked == []
    assert (await call(bearer, **args, authToken=TOKEN, confModAuthToken=""))["result"]


async def test_a_token_is_compared_in_constant_time(client: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare_digest(given: bytes, ours: bytes) -> bool:
        compared.append((given, ours))
        return True

    monkeypatch.setattr("pytubemq.admin.webapi.authorization.hmac.compare_digest", compare_digest)
    found = await call(client(Access(TOKEN)), method="change", topicName="t", createUser="me", authToken="abc")
    assert found["result"], "the comparison alone decides"
    assert compared == [(b"abc", TOKEN.encode())]


async def test_a_query_needs_no_token_and_a_wrong_one_is_refused(client: Make) -> None:
    assert (await call(client(Access(TOKEN)), method="ask"))["result"]
    assert "token is wrong" in (await call(client(Access(TOKEN)), method="ask", authToken="abc"))["errMsg"]
    assert (await call(client(Access()), method="ask", authToken="abc"))["result"]


async def test_without_a_token_only_this_machine_changes_something(client: Make, server: Server) -> None:
    found = await call(client(Access(local=False)), method="change", topicName="t", createUser="me")
    assert "set `token` in [http]" in found["errMsg"]
    assert (await call(client(Access(local=False)), method="ask"))["result"]
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"referer": "http://evil.example/page"},
        {"referer": "http://[broken"},
    ],
)
async def test_a_page_of_another_site_changes_nothing_and_gets_no_script(
    client: Make, server: Server, headers: dict[str, str]
) -> None:
    access = Access(TOKEN)
    found = await call(client(access, **headers), method="change", topicName="t", createUser="me", authToken=TOKEN)
    assert "another site" in found["errMsg"]
    answer = await client(access, **headers).get("/webapi.htm?method=ask&callback=f")
    assert answer.json()["result"] is False
    assert server.asked == []


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "same-origin", "origin": "http://127.0.0.1:8080"},
        {"sec-fetch-site": "none"},
        {"referer": "http://127.0.0.1:8080/index.htm"},
    ],
)
async def test_a_page_of_this_server_may(client: Make, headers: dict[str, str]) -> None:
    assert (await call(client(**headers), method="change", topicName="t", createUser="me"))["result"]


async def test_a_script_is_escaped_and_its_name_checked(client: Make) -> None:
    answer = await client().get(
        "/webapi.htm", params={"method": "ask", "callback": "my_Fun1", "disableCsmRsn": "</script>\"'"}
    )
    assert answer.headers["content-type"] == "text/plain;charset=utf-8"
    assert answer.text.startswith("my_Fun1({")
    assert answer.text.endswith("})")
    assert "<" not in answer.text
    assert json.loads(answer.text[len("my_Fun1(") : -1])["data"][0]["text"] == "</script>\"'"
    for bad in ("alert(1)//", "a.b", "<script>", "a" * 65, "\u00e9"):
        found = await call(client(), method="ask", callback=bad)
        assert "callback must be a name" in found["errMsg"]
        assert bad not in found["errMsg"]


async def test_errors_inside_a_method_become_failures(client: Make, caplog: pytest.LogCaptureFixture) -> None:
    found = await call(client(), method="fail", disableCsmRsn="call")
    assert (found["errCode"], found["errMsg"]) == (403, "not so")
    found = await call(client(), method="fail", disableCsmRsn="tube")
    assert (found["errCode"], found["errMsg"]) == (400, "no room: make some")
    found = await call(client(), method="fail")
    assert found["errCode"] == 500
    assert "secret" not in found["errMsg"]
    assert "fail failed" in caplog.text


async def test_changes_are_logged_and_the_token_never(client: Make, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    access = Access(TOKEN)
    args = {"topicName": "t", "createUser": "me"}
    await call(client(access), method="change", **args, authToken=TOKEN)
    await client(access).post("/webapi.htm?method=change", data={**args, "confModAuthToken": TOKEN})
    await call(client(access, authorization=f"Bearer {TOKEN}"), method="change", **args)
    await call(client(access), method="change", authToken=TOKEN)
    await call(client(access), method="change", authToken=TOKEN[:-1])
    ours = [record for record in caplog.records if record.name.startswith("pytubemq")]
    said = [record.getMessage() for record in ours]
    assert said[:3] == ["change (topicName t) by me from 127.0.0.1: done"] * 3
    assert "refused: the token is wrong" in said[-1]
    assert TOKEN[:-1] not in "".join(record.getMessage() for record in ours)
    assert TOKEN not in repr(access)


async def test_the_log_says_what_a_change_was_about_and_by_which_name_it_was_called(
    client: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await call(client(), method="bath_change", topicName="t", createUser="me")
    groups = json.dumps([{"groupName": f"g{number}"} for number in range(12)])
    await call(client(), method="many", groupCsmJsonSet=groups, createUser="me")
    said = [one.getMessage() for one in caplog.records if one.name.startswith("pytubemq")]
    assert said[0].startswith("bath_change (topicName t) by me")
    assert "(groupName g0, g1, g2, g3, g4, g5, g6, g7 and 4 more) by me" in said[1]


async def test_a_head_request_changes_nothing(client: Make, server: Server) -> None:
    answer = await client().head("/webapi.htm?method=change&topicName=t&createUser=me")
    assert answer.status_code == 200
    assert server.asked == []
    await client().head("/webapi.htm?method=ask")
    assert len(server.asked) == 1


async def test_a_body_is_a_form_and_bounded(client: Make) -> None:
    answer = await client().post("/webapi.htm?method=ask", json={"a": 1})
    assert "send a form" in answer.json()["errMsg"]
    answer = await client().post("/webapi.htm", data={"method": "ask", "x": "x" * MAX_HTTP_BODY_BYTES})
    assert "longer than 1048576 bytes" in answer.json()["errMsg"]
    answer = await client().post("/webapi.htm?method=ask", data={"method": "ask"})
    assert "'method' is given twice" in answer.json()["errMsg"]
    form = "&".join(f"p{number}=1" for number in range(10_000))
    headers = {"content-type": "application/x-www-form-urlencoded"}
    answer = await client().post("/webapi.htm", content=form, headers=headers)
    assert "more than 128 parameters" in answer.json()["errMsg"]
    answer = await client().post("/webapi.htm", content=b"method=ask&group=\xff", headers=headers)
    assert "not UTF-8" in answer.json()["errMsg"]


async def test_what_is_known_elsewhere_is_passed_over(client: Make) -> None:
    assert (await call(client(), method="ask", type="op_query", brokerId="1", brokerJsonSet="x", _="123"))["result"]


async def test_the_methods_list_themselves(client: Make) -> None:
    found = await call(client(), method="admin_get_methods")
    assert {"method": "bath_change", "needAuth": True} in found["data"]
    assert {"method": "admin_get_methods", "needAuth": False} in found["data"]
    assert found["count"] == 8


async def test_objects_of_a_set_say_who_asks_or_the_request_does(client: Make, server: Server) -> None:
    objects = [{"groupName": "a", "createUser": "other", "dataVersionId": 7}, {"group": "b"}]
    found = await call(
        client(), method="many", createUser="me", createDate="20260102030405", groupCsmJsonSet=json.dumps(objects)
    )
    assert found["result"]
    first, second = server.asked[0].items("groupCsmJsonSet")
    assert (first["groupName"], second["groupName"]) == ("a", "b")
    assert (first.audit.user, first.audit.data_version_id) == ("other", 7)
    assert (second.audit.user, second.audit.data_version_id) == ("me", -2)
    assert first.audit.ms == second.audit.ms == server.asked[0].audit.ms != NOW_MS


def test_a_table_takes_a_name_once() -> None:
    method: Method[Server] = Method("a", "", False, (), nothing, aliases=("b",))
    with pytest.raises(ValueError, match="b is in the table twice"):
        Table((method, Method("b", "", False, (), nothing)), {})
    with pytest.raises(ValueError, match="b is in the table twice"):
        Table((method,), {"b": "no"})


def test_a_change_with_parameters_that_do_nothing_says_so() -> None:
    item = Args({"topicName": "t", "memCacheMsgCntInK": 5})
    args = Args({"unflushInterval": 1, "numPartitions": 2, "qryPriorityId": None, "topicJsonSet": (item,)})
    note = unused_note(args)
    assert note.endswith(": unflushInterval, memCacheMsgCntInK")
    assert with_note(GOOD, note)["errMsg"] == f"OK; {note}"
    assert with_note(GOOD, unused_note(Args({"numPartitions": 2}))) == GOOD
    refused = failure("no", 400)
    assert with_note(refused, note) == refused
