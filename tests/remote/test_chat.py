"""``ft chat`` at a server says what it says beside the store, and of another tenant's results nothing."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import httpx
import pytest
from fastapi import FastAPI
from typer.testing import CliRunner

from ft_assets import api
from ft_assets.cli.main import app
from ft_assets.graph.orchestrator import Dagster
from ft_assets.remote.connection import Connection
from ft_assets.remote.login import Login
from ft_assets.remote.talks import RemoteTalk
from ft_assets.server.app import api_app
from ft_resources.errors import UserError
from tests.described_answers import answers_as_described
from tests.e2e.project import Project
from tests.server.chat_world import TEMPLATE, Line, OwnFleet
from tests.server.chat_world import engine as engine
from tests.server.chat_world import fleet as fleet
from tests.server.chat_world import line as line
from tests.server.scripted_server import Scripted

# A real engine answers.
pytestmark = pytest.mark.training

TOOLS = "{%- for tool in tools or [] -%}{{- '<|system|>' + tool.function.name -}}{%- endfor -%}"
ASKED = [{"role": "user", "content": "where is the fox?"}]
Piped = Callable[..., Any]


@pytest.fixture
def served(project: Project, access: api.Access, instance: dg.DagsterInstance, fleet: OwnFleet) -> Iterator[FastAPI]:
    made = api_app(project.store, access, orchestrator=Dagster(instance), fleet=fleet)
    with answers_as_described(made):
        yield made


@pytest.fixture
def piped(url: str, key: Callable[..., str], tmp_path: Path) -> Piped:
    """Asks by a pipe: at the server, for a tenant, or beside the store."""

    def ask(*arguments: str, tenant: str = "acme", here: bool = False) -> Any:
        own = {"FT_STORE": str(tmp_path / "nowhere"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
        far = {**own, "FT_SERVER": url.removesuffix("/v1"), "FT_API_KEY": key(tenant, "viewer")}
        return CliRunner(env={} if here else far).invoke(app, ["chat", *arguments], input="where is the fox?")

    return ask


def test_a_result_and_its_base_say_at_a_server_what_they_say_here(line: Line, piped: Piped, tmp_path: Path) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text('[{"type": "function", "function": {"name": "note"}}]')
    address = str(line.adapter(1, TOOLS + TEMPLATE).address)
    shown = set()
    for more in ((), ("--beside-base", "--max-tokens", "3"), ("--system", "be brief", "--tools", str(tools))):
        here, there = (piped(address, *more, here=here) for here in (True, False))
        assert (here.exit_code, there.exit_code) == (0, 0), (here.exception, there.exception, there.output)
        assert here.stdout == there.stdout
        shown.add(here.stdout)
    assert len(shown) == 3
    refused = [piped(str(line.adapter(2).address), "--tools", str(tools), here=here) for here in (True, False)]
    assert all("shows it no tools" in each.stderr for each in refused)


def test_another_tenants_result_is_not_there(line: Line, piped: Piped, url: str, key: Callable[..., str]) -> None:
    address = str(line.adapter(1).address)
    for target in (address, address[:20], ""):
        told = piped(target, tenant="globex")
        assert (told.exit_code, told.stdout) == (2, "")
    with httpx.Client(headers={"authorization": f"Bearer {key('globex', 'viewer')}"}) as client:
        answers = [
            client.post(f"{url}/ft/answers", json={"address": each, "messages": ASKED})
            for each in (address, address[:-1] + "x", f"acme/eval_report/{'0' * 64}")
        ]
    assert {answer.status_code for answer in answers} == {404}


def test_a_rejected_candidate_is_told_to_be_on_no_server(line: Line, url: str, key: Callable[..., str]) -> None:
    connection = Connection(Login(server=url.removesuffix("/v1"), key=key("acme", "viewer"), source=""))
    talk = RemoteTalk(connection, f"acme/eval_report/{'0' * 64}")
    with pytest.raises(UserError, match="is on no server"):
        talk.answer(ASKED, lambda *_: None)


def test_an_answer_that_breaks_off_is_told(line: Line, fleet: OwnFleet, url: str, key: Callable[..., str]) -> None:
    scripted = Scripted(["it is ", "here"], ends=False)
    fleet.servers = []
    fleet.add(scripted.url)
    connection = Connection(Login(server=url.removesuffix("/v1"), key=key("acme", "viewer"), source=""))
    told: list[str] = []
    with pytest.raises(UserError, match="server of this model failed"):
        RemoteTalk(connection, str(line.adapter(1).address)).answer(ASKED, lambda _, text: told.append(text))
    scripted.close()
    assert told == ["it is ", "here"]
