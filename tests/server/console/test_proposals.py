"""Moves to production that need a second person, in the console: proposed, approved, declined, withdrawn."""

import re
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from ft_assets import api
from ft_resources.artifacts import Artifact
from tests.cli.test_lines import adapters as adapters
from tests.control.lines.promotable import LINE
from tests.e2e.project import Project
from tests.server.conftest import access as access
from tests.server.conftest import project as project
from tests.server.conftest import served as served

pytestmark = pytest.mark.dagster
OWN = {"origin": "http://127.0.0.1", "sec-fetch-site": "same-origin"}
PAGE = f"/console/lines/{LINE}"


class Person:
    """Somebody of the tenant who is signed in."""

    def __init__(self, served: FastAPI, access: api.Access, name: str, role: api.Role = "promoter") -> None:
        self.client = TestClient(served, base_url="http://127.0.0.1", follow_redirects=False)
        _, key = api.create_key("acme", role=role, name=name, access=access, actor="root")
        assert self.client.post("/console/sign-in", data={"key": key}, headers=OWN).status_code == 303

    @property
    def page(self) -> str:
        answer = self.client.get(PAGE)
        assert answer.status_code == 200, answer.text
        return answer.text

    def send(self, path: str, **fields: Any) -> httpx.Response:
        token = re.search(r'name="form_token" value="([0-9a-f]{64})"', self.client.get("/console/usage").text)
        assert token is not None
        data = {"form_token": token[1], **fields}
        return self.client.post(f"{PAGE}/{path}", data=data, headers=OWN)

    def propose(self, adapter: Artifact) -> str:
        """The id of the proposal that waits then."""
        sent = {"adapter": str(adapter.address), "stage": "production", "reason": "a good week"}
        assert self.send("promote", **sent).status_code == 303
        return str(re.findall(r"/proposals/([^/]+)/decline", self.page)[0])


@pytest.fixture
def people(adapters: list[Artifact], served: FastAPI, access: api.Access, project: Project) -> tuple[Person, Person]:
    with (project.folder / "tenants.yaml").open("a") as file:
        file.write("production_second_person: true\n")
    return Person(served, access, "ann"), Person(served, access, "bea")


def in_production(project: Project) -> str:
    found = api.show_line(LINE, store=project.store).at("production")
    return found.adapter.address if found else ""


def test_a_second_person_approves_a_move_and_both_are_in_the_history(
    adapters: list[Artifact], people: tuple[Person, Person], project: Project
) -> None:
    ann, bea = people
    proposal = ann.propose(adapters[0])
    assert in_production(project) == ""
    assert "Pending approval by a second person" in bea.page
    assert "a good week" in bea.page
    # Who proposed it is offered to withdraw it, and cannot approve it.
    assert ("Withdraw</button>" in ann.page, "/approve" in ann.page, "/approve" in bea.page) == (True, False, True)
    refused = ann.send(f"proposals/{proposal}/approve", reason="I like it")
    assert (refused.status_code, "another person must approve it" in refused.text) == (403, True)
    assert bea.send(f"proposals/{proposal}/approve", reason="").status_code == 400
    assert in_production(project) == ""
    assert bea.send(f"proposals/{proposal}/approve", reason="I read the report").status_code == 303
    assert in_production(project) == str(adapters[0].address)
    page = bea.page
    assert "Pending approval by a second person" not in page
    assert re.search(r"bea \(key [a-z0-9]{12}\).{0,60}proposed by ann \(key", page, re.DOTALL)


def test_a_declined_or_withdrawn_move_is_not_carried_out(
    adapters: list[Artifact], people: tuple[Person, Person], project: Project
) -> None:
    ann, bea = people
    declined = ann.propose(adapters[0])
    assert bea.send(f"proposals/{declined}/decline", reason="not yet").status_code == 303
    assert "Pending approval by a second person" not in ann.page
    late = bea.send(f"proposals/{declined}/approve", reason="after all")
    assert (late.status_code, "declined" in late.text) == (400, True)
    withdrawn = ann.propose(adapters[0])
    assert ann.send(f"proposals/{withdrawn}/decline", reason="a mistake").status_code == 303
    states = {each.proposal.id: each.state for each in api.list_proposals(LINE, store=project.store)}
    assert states == {declined: "declined", withdrawn: "withdrawn"}
    assert in_production(project) == ""


def test_who_may_not_decide_sees_what_waits_and_no_button(
    adapters: list[Artifact], people: tuple[Person, Person], served: FastAPI, access: api.Access
) -> None:
    proposal = people[0].propose(adapters[0])
    member = Person(served, access, "max", "member")
    assert "Another promoter can approve it." in member.page
    assert "/approve" not in member.page
    assert member.send(f"proposals/{proposal}/approve", reason="x").status_code == 403
    assert people[1].send(f"proposals/{proposal}/promise", reason="x").status_code == 404
    assert people[1].send("proposals/none/approve", reason="x").status_code == 404
