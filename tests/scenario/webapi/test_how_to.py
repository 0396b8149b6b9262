"""The commands of the how-to about groups do what the page says, one after the other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import httpx
import pytest

from tests.scenario.webapi.house import TOKEN, house

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[3] / "docs/how-to/control-groups.md").read_text("utf-8")
URL = "http://127.0.0.1:8080"


def commands() -> list[tuple[str, dict[str, str]]]:
    """Path and form of every curl command of the page."""
    found = []
    for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        for command in re.split(r"^(?=curl )", block, flags=re.MULTILINE)[1:]:
            words = shlex.split(command.replace("\\\n", " "))
            assert words[:2] == ["curl", "-s"]
            assert words[2].startswith(URL)
            assert {*words[3::2]} <= {"-d", "--data-urlencode"}
            pairs = [word.partition("=") for word in words[4::2]]
            found.append((words[2].removeprefix(URL), {name: value for name, _, value in pairs}))
    return found


async def test_the_commands_work_as_they_stand() -> None:
    ran = []
    async with house() as here:
        await here.town.broker()
        await here.topics("orders")
        catalogue = here.town.master.catalogue
        async with httpx.AsyncClient(
            base_url=here.client.base_url, headers={"Authorization": f"Bearer {TOKEN}"}
        ) as client:
            for path, form in commands():
                answer = (await client.post(path, data=form)).json()
                assert answer["result"], answer
                assert all(item.get("success", True) for item in answer["data"]), answer
                ran.append(form["method"])
                match form["method"]:
                    case "admin_add_black_consumergroup_info":
                        assert catalogue.disabled_topics("reports") == {"orders"}
                    case "admin_delete_black_consumergroup_info":
                        assert catalogue.disabled_topics("reports") == frozenset()
                    case "admin_set_topic_authorize_control":
                        assert catalogue.topics["orders"].enable_auth_control
                    case "admin_add_group_filtercond_info":
                        assert catalogue.consumes["audit", "orders"].filter_conds == {"refund", "void"}
                    case "admin_set_group_flow_control_rule":
                        assert catalogue.groups["reports"].flow_ctrl_enable
        assert catalogue.groups["reports"].flow_ctrl_info == "[]"
    assert ran.count("admin_rmv_group_flow_control_rule") == 1
