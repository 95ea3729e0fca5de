"""What OpenAI's dialect has no words for: datasets, estimates, gates, lines and usage, of one's own tenant only."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from ft_assets import api
from ft_assets.control.lines.lines import read_line
from ft_resources.artifacts import Artifact
from tests.cli.conftest import made_later as made_later
from tests.cli.conftest import pair as pair
from tests.cli.test_lines import adapters as adapters
from tests.control.lines.promotable import LINE
from tests.e2e.project import Project
from tests.server.conftest import Asker

Http = Callable[..., httpx.Client]


@pytest.fixture
def http(asker: Asker) -> Http:
    return lambda tenant="acme", role="promoter": asker(tenant, role, below="/ft")


def test_a_line_is_promoted_and_rolled_back_by_the_holder_of_a_key(
    project: Project, adapters: list[Artifact], http: Http
) -> None:
    acme = http()
    first, second = (str(adapter.address) for adapter in adapters)
    promoted = acme.post(f"/lines/{LINE}/promote", json={"to": "production", "reason": "good", "adapter": first})
    assert promoted.status_code == 200, promoted.text
    assert (promoted.json()["adapter"], promoted.json()["stage"]) == (first, "production")
    assert promoted.json()["actor"].startswith("bea (key ")
    better = {"to": "production", "reason": "better", "adapter": second}
    assert acme.post(f"/lines/{LINE}/promote", json=better).json()["adapter"] == second
    assert acme.post(f"/lines/{LINE}/rollback", json={"reason": "worse"}).json()["adapter"] == first
    assert acme.get("/lines").json()["data"] == [{"id": LINE, "object": "ft.line", "stages": {"production": first}}]
    history = acme.get(f"/lines/{LINE}").json()["history"]
    assert [each["kind"] for each in history] == ["promotion", "promotion", "rollback"]
    assert {record.actor for record in read_line(project.store, LINE).records} == {promoted.json()["actor"]}


def test_a_member_decides_nothing_about_lines(adapters: list[Artifact], http: Http) -> None:
    member = http(role="member")
    refused = member.post(f"/lines/{LINE}/promote", json={"to": "production", "reason": "good"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "insufficient_permissions")
    assert member.get("/lines").json()["data"] == []


def test_what_is_another_tenant_s_is_answered_as_what_is_not_there(
    project: Project, adapters: list[Artifact], http: Http
) -> None:
    first = str(adapters[0].address)
    assert http().post(f"/lines/{LINE}/promote", json={"to": "dev", "reason": "x", "adapter": first}).status_code == 200
    globex = http("globex")
    nothing = LINE.replace("acme", "nobody")
    calls: list[tuple[str, str, dict[str, Any] | None]] = [
        ("GET", "/datasets/{tenant}.things.v1", None),
        ("POST", "/datasets/{tenant}.things.v1/approve", {"note": "x"}),
        ("POST", "/estimate", {"dataset": "{tenant}.things.v1", "recipe": "tiny.v1"}),
        ("GET", "/lines/{tenant}.things.tiny", None),
        ("POST", "/lines/{tenant}.things.tiny/promote", {"to": "dev", "reason": "x"}),
        ("POST", "/lines/{tenant}.things.tiny/rollback", {"reason": "x"}),
        ("POST", "/lines/globex.things.tiny/promote", {"to": "dev", "reason": "x", "adapter": "{tenant}/adapter/00"}),
    ]
    for method, path, body in calls:
        said = set()
        for tenant in ("acme", "nobody"):
            sent = {name: value.replace("{tenant}", tenant) for name, value in body.items()} if body else None
            answer = globex.request(method, path.replace("{tenant}", tenant), json=sent)
            said.add((answer.status_code, answer.text.replace(tenant, "TENANT")))
        assert len(said) == 1, path
        assert said.pop()[0] == 404
    for path in ("/lines", "/datasets", "/usage"):
        assert globex.get(path).json()["data"] == []
    assert nothing not in str(globex.get("/recipes").json())


def test_datasets_recipes_and_an_estimate_are_shown(
    pair: tuple[str, str], made_later: Callable[[], dict[str, Artifact]], http: Http
) -> None:
    dataset, recipe = pair
    acme = http(role="viewer")
    assert acme.get("/datasets").json()["data"] == [
        {"id": dataset, "object": "ft.dataset", "state": "not curated", "why": ""}
    ]
    made = made_later()
    shown = acme.get(f"/datasets/{dataset}").json()
    assert (shown["state"], shown["address"]) == ("accepted", str(made["dataset"].address))
    assert shown["facts"]["rows"] == {"train": 128, "validation": 16, "holdout": 16}
    assert [each["id"] for each in acme.get("/recipes").json()["data"]] == [recipe]
    found = acme.post("/estimate", json={"dataset": dataset, "recipe": recipe}).json()
    assert found["steps"] == 8
    assert found["gpu_hours"].keys() >= {"lower", "upper"}
    assert acme.get("/usage?month=soon").json()["error"]["message"].startswith("month: 'soon' is not a month")


def test_where_two_people_decide_a_promotion_waits_for_another_promoter(
    project: Project, adapters: list[Artifact], http: Http, access: api.Access
) -> None:
    with (project.folder / "tenants.yaml").open("a") as file:
        file.write("production_second_person: true\n")
    first = str(adapters[0].address)
    bea, same = http(), http()
    _, key = api.create_key("acme", role="promoter", name="zoe", access=access, actor="root")
    zoe = {"authorization": f"Bearer {key}"}
    asked = bea.post(f"/lines/{LINE}/promote", json={"to": "production", "reason": "good", "adapter": first})
    assert (asked.status_code, asked.json()["state"], asked.json()["adapter"]) == (202, "open", first)
    assert bea.get(f"/lines/{LINE}/proposals").json()["data"] == [asked.json()]
    path = f"/lines/{LINE}/proposals/{asked.json()['id']}"
    refused = same.post(f"{path}/approve", json={"note": "fine"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "insufficient_permissions")
    assert http(role="member").post(f"{path}/approve", json={"note": "fine"}).status_code == 403
    assert http("globex").post(f"{path}/approve", json={"note": "fine"}).status_code == 404
    assert bea.get("/lines").json()["data"] == []
    approved = bea.post(f"{path}/approve", json={"note": "I read it"}, headers=zoe).json()
    assert approved["actor"].startswith("zoe (key ")
    assert approved["proposed_by"].startswith("bea (key ")
    assert bea.get("/lines").json()["data"][0]["stages"] == {"production": first}
    late = bea.post(f"{path}/decline", json={"reason": "no"})
    assert late.status_code == 400
    assert "has approved it" in late.json()["error"]["message"]
    second = {"to": "production", "reason": "better", "adapter": str(adapters[1].address)}
    other = bea.post(f"/lines/{LINE}/promote", json=second).json()["id"]
    withdrawn = same.post(f"/lines/{LINE}/proposals/{other}/decline", json={"reason": "a mistake"}).json()
    assert (withdrawn["state"], withdrawn["answer"]["reason"]) == ("withdrawn", "a mistake")
