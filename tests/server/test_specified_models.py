"""``/v1/models`` and promotions by model, as the specification's table has them, asked with nothing but HTTP."""

from typing import Any

import httpx
import pytest

from ft_assets.control.lines.lines import read_line
from ft_assets.records.submissions import SubmissionStatus, finish
from ft_resources.artifacts import Artifact
from tests.cli.test_lines import adapters as adapters
from tests.control.lines.promotable import LINE
from tests.e2e.project import Project
from tests.made import REVISION, SOURCE
from tests.server.conftest import Asker, Client, settled, submission_of, upload

GATES = "eval_report says no\n- regression: fail, mmlu-1000.v1 fell by 3.1 points, at most 1.0 are allowed"


@pytest.fixture
def acme(asker: Asker) -> httpx.Client:
    return asker("acme", "promoter")


def deployed(client: httpx.Client, name: str, stage: str = "production") -> httpx.Response:
    return client.post(f"/models/{name}/deploy", json={"stage": stage, "serving_pool": "default"})


def refusal(answer: httpx.Response) -> str:
    assert answer.status_code == 400, answer.text
    return str(answer.json()["error"]["message"])


def ids(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [each["id"] for each in answer.json()["data"]]


def test_a_model_is_deployed_rolled_back_and_deprecated_by_its_name(
    project: Project, adapters: list[Artifact], acme: httpx.Client
) -> None:
    first, second = (str(adapter.address) for adapter in adapters)
    answer = deployed(acme, first)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert (told["adapter"], told["stage"], told["serving_pool"]) == (first, "production", "default")
    assert told["reason"] == f"asked for by POST /v1/models/{first}/deploy"
    # An adapter by its fingerprint, or the beginning of one.
    promoted = acme.post(f"/adapters/{adapters[1].address.fingerprint[:12]}/promote", json={"stage": "production"})
    assert (promoted.status_code, promoted.json()["adapter"]) == (200, second)
    assert f"There is {second}" in refusal(acme.post(f"/adapters/{first}/rollback"))
    assert acme.post(f"/models/{LINE}/rollback", json={"reason": "worse"}).json()["adapter"] == first
    below = httpx.Client(base_url=str(acme.base_url).removesuffix("/v1/"), headers=acme.headers)
    with below:
        again = below.post(f"/adapters/{second}/promote", json={"stage": "production", "reason": "mended"})
        assert (again.status_code, again.json()["adapter"]) == (200, second)
        assert below.post(f"/adapters/{second}/rollback").json()["adapter"] == first
        assert below.post(f"/adapters/{second}/deprecate", json={"reason": "old"}).json()["stage"] == "deprecated"
    assert "it was deprecated by" in refusal(deployed(acme, second))
    kinds = [(each.kind, each.stage) for each in read_line(project.store, LINE).records]
    to, back = ("promotion", "production"), ("rollback", "production")
    assert kinds == [to, to, back, to, back, ("promotion", "deprecated")]


def test_a_deployment_is_refused_with_the_reasons_of_the_gates(
    adapters: list[Artifact], acme: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ft_assets.control.lines.eligibility.rejection_reason", lambda *_: GATES)
    for path in (f"/models/{adapters[0].address}/deploy", f"/adapters/{adapters[0].address}/promote"):
        said = refusal(acme.post(path, json={"stage": "production", "serving_pool": "default"}))
        assert "regression: fail, mmlu-1000.v1 fell by 3.1 points" in said
    assert ids(acme.get("/models", params={"type": "fine-tuned"})) == []


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"stage": "heaven"}, "stage must be 'dev', 'staging' or 'production'"),
    ({}, "stage is missing"),
    ({"stage": "dev", "serving_pool": "a100"}, "serving_pool must be 'default'"),
    ({"stage": "dev", "replicas": 3}, "there is no member 'replicas' here"),
]


@pytest.mark.parametrize(("body", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_a_deployment_cannot_have_is_refused_by_name(
    adapters: list[Artifact], acme: httpx.Client, body: dict[str, Any], said: str
) -> None:
    assert said in refusal(acme.post(f"/models/{adapters[0].address}/deploy", json=body))


def test_what_is_no_model_is_not_found(adapters: list[Artifact], acme: httpx.Client) -> None:
    for name in ("nothing", "0" * 64, "0" * 12, f"acme/adapter/{'0' * 64}", f"globex/adapter/{'0' * 64}", "ftjob-0"):
        for path, body in (("deploy", {"stage": "dev"}), ("rollback", {}), ("deprecate", {})):
            answer = acme.post(f"/models/{name}/{path}", json=body)
            assert answer.status_code == 404, answer.text


def test_a_rejected_job_is_no_model_and_says_why(
    project: Project, adapters: list[Artifact], client: Client, acme: httpx.Client
) -> None:
    member = client()
    job = settled(
        member, member.fine_tuning.jobs.create(model="tiny", training_file=upload(member, project.dataset())).id
    )
    assert "has not ended yet" in refusal(deployed(acme, job.id))
    finish(project.store, submission_of(project, job), SubmissionStatus.ACCEPTED, adapter=str(adapters[0].address))
    name = member.fine_tuning.jobs.retrieve(job.id).fine_tuned_model
    for each, stage in ((job.id, "dev"), (name, "staging"), (LINE, "production")):
        assert deployed(acme, each, stage).json()["adapter"] == str(adapters[0].address)


def test_models_tell_what_they_are_made_of_and_filters_hold(
    adapters: list[Artifact], acme: httpx.Client, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    # They have no files that a server could load.
    monkeypatch.setattr("ft_assets.control.serving.names.is_adapter", lambda _: True)
    for stage in ("dev", "staging", "production"):
        assert deployed(acme, str(adapters[0].address), stage).status_code == 200
    first = acme.get("/models").json()["data"][0]
    expected = {
        "id": LINE,
        "object": "model",
        "type": "fine-tuned",
        "base_model": f"{SOURCE}@{REVISION}",
        "base_model_sha": f"sha256:{adapters[0].manifest.inputs['base'].digest}",
        "artifact_uri": project.store.url_of(str(adapters[0].address)),
        "dataset_version": "acme.things.v1",
        "eval_metrics": {"exact_match": {"base": 0.2, "candidate": 0.4}},
        "stage": "production",
    }
    assert {name: first[name] for name in expected} == expected
    assert acme.get(f"/models/{LINE}").json() == first
    of_line = [LINE, f"{LINE}@staging"]
    asked: list[tuple[dict[str, str], list[str]]] = [
        ({}, [*of_line, "tiny"]),
        ({"type": "base"}, ["tiny"]),
        ({"type": "fine-tuned"}, of_line),
        ({"type": "fine-tuned", "base_model": f"{SOURCE}@{REVISION}"}, of_line),
        ({"base_model": SOURCE.removeprefix("hub:")}, of_line),
        ({"base_model": first["base_model_sha"]}, of_line),
        ({"base_model": "tiny"}, ["tiny"]),
        ({"type": "fine-tuned", "base_model": "hub:acme/other"}, []),
    ]
    for query, found in asked:
        assert ids(acme.get("/models", params=query)) == found, query
    assert "type must be 'base' or 'fine-tuned'" in refusal(acme.get("/models", params={"type": "new"}))
    assert "there is no query parameter 'basemodel'" in refusal(acme.get("/models", params={"basemodel": "tiny"}))


def test_whoever_may_not_promote_changes_nothing_and_another_tenants_model_is_not_there(
    adapters: list[Artifact], asker: Asker, url: str, project: Project
) -> None:
    address = str(adapters[0].address)
    calls = [
        (f"{place}/{address}/{what}", {"stage": "dev"} if what in ("deploy", "promote") else {})
        for place, promoted in (("/v1/models", "deploy"), ("/v1/adapters", "promote"), ("/adapters", "promote"))
        for what in (promoted, "rollback", "deprecate")
    ]
    server = url.removesuffix("/v1")
    member, globex = asker("acme", "member"), asker("globex", "promoter")
    for path, body in calls:
        assert httpx.post(f"{server}{path}", json=body).status_code == 401
        assert member.post(f"{server}{path}", json=body).status_code == 403
        assert globex.post(f"{server}{path}", json=body).status_code == 404
    for name in (LINE, f"{LINE}@staging"):
        assert deployed(globex, name).status_code == 404
    assert read_line(project.store, LINE).records == ()
