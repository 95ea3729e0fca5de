"""The pages: who may what, what another tenant's is answered, empty states, and errors as pages."""

import re
from urllib.parse import quote

import httpx
import pytest

from ft_assets import api
from ft_assets.records.submissions import SubmissionStatus, find_outcome, finish
from tests.server.console.fake_training import FakeTraining
from tests.server.console.world import Someone, World

READS = ("jobs", "files", "datasets", "adapters", "lines", "usage", "notices")


def finished(world: World, person: Someone, tenant: str, rows: int) -> tuple[str, FakeTraining, str]:
    """An accepted job of the tenant: its id, its work, and its line."""
    job = person.start(person.upload(world.project.dataset(rows=rows, name=f"{tenant}.jsonl")), "colours")
    training = world.training(job, tenant)
    training.prepare()
    training.evaluate()
    training.accept()
    return job, training, f"{tenant}.colours.{training.submission.recipe.split('.')[-2]}"


def test_an_empty_page_says_what_to_do_next(world: World) -> None:
    person = world.person("newcomer")
    for path, said in {
        "jobs": "Upload a file",
        "files": "Choose a file above",
        "datasets": "Upload a file",
        "adapters": "New job",
        "lines": "New job",
        "usage": "after the first job",
        "notices": "No notices yet",
        "new": "Rows first",
    }.items():
        answer = person.get(path)
        assert (answer.status_code, said in answer.text) == (200, True), path


@pytest.mark.parametrize(
    ("role", "refused"),
    [
        ("viewer", {"new", "keys"}),
        ("member", {"keys"}),
        ("promoter", {"keys"}),
        ("admin", set()),
    ],
)
def test_each_role_sees_its_pages(world: World, role: api.Role, refused: set[str]) -> None:
    person = world.person(role=role)
    for path in (*READS, "new", "keys"):
        answer = person.get(path)
        assert answer.status_code == (403 if path in refused else 200), path
        if path in refused:
            assert "This requires the role" in answer.text
    assert ('href="/console/keys"' in person.get("jobs").text) == (role == "admin")


def test_each_change_needs_the_role_that_the_api_asks_for(world: World) -> None:
    needed = {
        "member": ("files/look?name=a.jsonl", "files/file-x/delete", "new/estimate", "new/start", "jobs/ftjob-x/pause"),
        "promoter": ("datasets/acme.a.v1/approve", "lines/acme.a.b/promote", "lines/acme.a.b/rollback"),
        "admin": ("keys", "keys/abc/revoke"),
    }
    roles: list[api.Role] = ["viewer", "member", "promoter"]
    for place, role in enumerate(roles):
        person = world.person(role=role)
        token = person.token
        for paths in list(needed.values())[place:]:
            for path in paths:
                answer = person.client.post(f"/console/{path}", data={"form_token": token}, headers=person.own)
                assert (answer.status_code, "This requires the role" in answer.text) == (403, True), (role, path)
    viewer = world.person(role="viewer")
    sent = viewer.send("files", files={"file": ("rows.jsonl", b"{}\n")})
    assert sent.status_code == 403


def test_what_is_another_tenant_s_is_answered_as_what_is_not_there(world: World) -> None:
    owner = world.person("owner", "admin")
    job, training, line = finished(world, owner, "owner", 140)
    file = owner.upload(world.project.dataset(rows=145, name="private.jsonl"))
    report = str(api.dataset_report("owner.colours.v1", store=world.project.store).artifact.address)
    key = api.list_keys("owner", access=world.access)[0].prefix
    stranger = world.person("stranger", "admin")
    nothing = job[:-4] + "0000"
    pages = {
        f"jobs/{job}": f"jobs/{nothing}",
        f"jobs/{job}/live": f"jobs/{nothing}/live",
        f"jobs/{job}/events": f"jobs/{nothing}/events",
        f"jobs/{job}/answers": f"jobs/{nothing}/answers",
        f"jobs/{job}/files/step_metrics.csv": f"jobs/{nothing}/files/step_metrics.csv",
        "datasets/owner.colours.v1": "datasets/nobody.colours.v1",
        f"lines/{line}": f"lines/{line.replace('owner', 'nobody')}",
        f"reports/{report}/report/report.html": f"reports/{report.replace('owner', 'nobody')}/report/report.html",
        f"new?file={file}&base=tiny": "new?file=file-0&base=tiny",
    }
    for path, other in pages.items():
        if not path.endswith("events"):
            assert owner.get(path, follow_redirects=True).status_code == 200, path
        found, missing = stranger.get(path), stranger.get(other)
        assert (found.status_code, missing.status_code) == (404, 404), path
    changes = {
        f"jobs/{job}/cancel": {},
        f"files/{file}/delete": {},
        "datasets/owner.colours.v1/approve": {"reason": "x"},
        f"lines/{line}/promote": {"stage": "dev", "reason": "x", "adapter": str(training.submission.id)},
        f"lines/{line}/rollback": {"stage": "dev", "reason": "x"},
        f"keys/{key}/revoke": {},
        "new/start": {"file": file, "base": "tiny", "method": "sft", "name": "stolen"},
        "new/estimate": {"file": file, "base": "tiny", "method": "sft", "name": "stolen"},
    }
    for path, fields in changes.items():
        assert stranger.send(path, **fields).status_code == 404, path
    for path in READS:
        text = stranger.get(path).text
        assert "owner" not in text, path
    assert "private.jsonl" in owner.get("files").text


def test_the_first_rows_are_shown_and_bad_ones_named_while_nothing_is_kept(world: World) -> None:
    person = world.person("looker")
    rows = b'{"prompt": "a", "completion": "b"}\n{"prompt": "a"}\n{"prompt": "c", "completion": "d"}\n{"prom'

    def look(name: str, head: bytes) -> tuple[int, str]:
        headers = {**person.own, "x-form-token": person.token, "x-part": "1"}
        answer = person.client.post("/console/files/look", params={"name": name}, content=head, headers=headers)
        return answer.status_code, answer.text

    code, said = look("rows.jsonl", rows)
    assert code == 200
    assert "1 of the first 3 rows cannot be used" in said
    assert ">1 row</th>" in said
    assert 'data-label="first rows">2</td>' in said
    assert "<pre>c</pre>" in said
    code, said = look("rows.csv", b'prompt,completion\n"a, b","c\nd"\n"e","f')
    assert (code, "The first 1 rows can be used" in said) == (200, True)
    code, said = look("rows.parquet", b"PAR1" + b"x" * 100)
    assert (code, "checked only after the whole upload" in said) == (200, True)
    code, said = look("rows.exe", b"MZ")
    assert (code, "cannot be read" in said) == (400, True)
    code, said = look("rows.jsonl", b'{"prompt": "<script>alert(1)</script>", "completion": "b"}\n')
    assert "<script>" not in said
    assert "&lt;script&gt;" in said
    assert "No files yet" in person.get("files").text


def test_a_job_is_paused_resumed_and_cancelled_from_its_page(world: World) -> None:
    person = world.person("stopper")
    job = person.start(person.upload(world.project.dataset(rows=150, name="stopper.jsonl")), "colours")
    assert person.send(f"jobs/{job}/pause").headers["location"] == f"/console/jobs/{job}"
    assert "Resume</button>" in person.get(f"jobs/{job}").text
    assert person.send(f"jobs/{job}/resume").status_code == 303
    assert "Pause</button>" in person.get(f"jobs/{job}").text
    assert person.send(f"jobs/{job}/cancel").status_code == 303
    live = person.get(f"jobs/{job}/live")
    assert (live.headers["x-ended"], "cancelled" in live.text) == ("1", True)
    submission = world.training(job, "stopper").submission
    outcome = find_outcome(world.project.store, submission)
    assert outcome is not None
    assert outcome.status is SubmissionStatus.CANCELLED
    again = person.send(f"jobs/{job}/pause")
    assert (again.status_code, "What to do" in again.text or "ended" in again.text) == (400, True)


def test_a_form_that_is_sent_twice_is_one_job(world: World) -> None:
    person = world.person("twice")
    file = person.upload(world.project.dataset(rows=155, name="twice.jsonl"))
    sent = {"file": file, "base": "tiny", "method": "sft", "name": "colours", "key": "one"}
    first, second = (person.send("new/start", **sent).headers["location"] for _ in range(2))
    assert first == second


def test_the_estimate_stands_before_anything_runs_and_wrong_numbers_are_told(world: World) -> None:
    person = world.person("careful")
    file = person.upload(world.project.dataset(rows=160, name="careful.jsonl"))
    sent = {"file": file, "base": "tiny", "method": "sft", "name": "colours"}
    answer = person.send("new/estimate", **sent, n_epochs="3")
    assert (answer.status_code, "Nothing is running yet" in answer.text) == (200, True)
    # As the job's page calls it afterwards.
    assert "Task gain" in answer.text
    assert "careful.colours.v1" in person.get("datasets").text
    assert "No jobs yet" in person.get("jobs").text
    for field, value, said in (
        ("n_epochs", "many", "&#39;many&#39; is not a number"),
        ("n_epochs", "0", "n_epochs"),
        ("name", "No Spaces", "suffix"),
        ("gates", "accuracy", "&#39;accuracy&#39; is not a gate"),
        ("gates", "beauty > 0.5", "neither measured by the recipe"),
        ("base", "other", "there is no model"),
    ):
        answer = person.send("new/estimate", **{**sent, field: value})
        assert answer.status_code in (400, 404), field
        assert said.lower() in answer.text.lower(), answer.text


def test_the_wizard_offers_what_a_person_registered_and_not_what_jobs_got_of_their_model(world: World) -> None:
    person = world.person("chooser")
    file = person.upload(world.project.dataset(rows=180, name="chooser.jsonl"))
    own = "chooser.tiny-sft-0123abcd.v1"
    job = person.start(file, "colours")
    state = api.job_state("chooser", job.removeprefix("ftjob-"), store=world.project.store)
    assert state.settled is not None
    made = state.settled.recipe
    (stored,) = api.list_recipes(tenant="chooser", store=world.project.store)
    assert (stored.recipe.key, stored.of_model) == (made, "tiny")
    # Its name is as those of jobs' recipes, and a person gave it.
    registered = api.register_recipe(world.project.recipe(own), store=world.project.store, actor="ann")
    base = quote(api.get_recipe(registered.key, store=world.project.store).recipe.base)
    offered = "".join(person.get(f"new?file={file}&base={each}&method=sft").text for each in ("tiny", base))
    assert own in offered
    assert made not in offered


def test_a_held_dataset_is_approved_with_a_reason_by_a_promoter(world: World) -> None:
    member, promoter = world.person("reviewed"), world.person("reviewed", "promoter")
    job = member.start(member.upload(world.project.dataset(rows=165, name="held.jsonl")), "colours")
    world.training(job, "reviewed").curate(held=("A third of the rows hold names of people.",))
    assert "Look at the dataset" in member.get(f"jobs/{job}").text
    page = member.get("datasets/reviewed.colours.v1").text
    assert "A third of the rows hold names of people." in page
    assert "Approve</button>" not in page
    assert promoter.send("datasets/reviewed.colours.v1/approve", reason=" ").status_code == 400
    assert promoter.send("datasets/reviewed.colours.v1/approve", reason="names of the firm").status_code == 303
    assert "names of the firm" in member.get("datasets/reviewed.colours.v1").text


def test_a_line_is_promoted_and_rolled_back_with_reasons(world: World) -> None:
    promoter = world.person("decider", "promoter")
    _, training, line = finished(world, promoter, "decider", 170)
    (adapter,) = api.list_adapters(tenant="decider", store=world.project.store)
    sent = {"adapter": str(adapter.address), "stage": "dev"}
    assert promoter.send(f"lines/{line}/promote", **sent, reason="").status_code == 400
    assert promoter.send(f"lines/{line}/promote", **{**sent, "stage": "moon"}, reason="x").status_code == 400
    assert promoter.send(f"lines/{line}/promote", **sent, reason="good on all colours").status_code == 303
    page = promoter.get(f"lines/{line}").text
    assert "good on all colours" in page
    assert adapter.address.fingerprint[:12] in page
    assert "dev</span>" in promoter.get("adapters").text
    back = promoter.send(f"lines/{line}/rollback", stage="dev", reason="worse")
    # Nothing stood there before.
    assert (back.status_code, 'role="alert"' in back.text) == (400, True)
    assert training.submission.recipe.startswith("decider.")


def test_a_result_without_gates_is_not_said_to_be_promotable(world: World) -> None:
    person = world.person("free")
    job = person.start(person.upload(world.project.dataset(rows=197, name="free.jsonl")), "colours")
    submission = world.training(job, "free").submission
    finish(world.project.store, submission, SubmissionStatus.UNGATED, adapter=f"free/ungated/{'0' * 64}")
    page = person.get(f"jobs/{job}").text
    assert ["It was not judged by gates" in page, "where it can be promoted" in page] == [True, False]


def test_what_keeps_results_out_of_production_is_listed_wherever_they_are_looked_at(world: World) -> None:
    person = world.person("walled", "promoter")
    sent = {"base": "tiny", "method": "sft", "name": "colours"}
    file = person.upload(world.project.dataset(rows=195, name="estimated.jsonl"))
    job, _, line = finished(world, person, "walled", 196)
    not_served = "is not on the servers of walled. Ask the platform&#39;s operator."
    pages = {
        "estimate": (person.send("new/estimate", file=file, **sent).text, not_served),
        "job": (person.get(f"jobs/{job}").text, not_served),
        "line": (person.get(f"lines/{line}").text, not_served),
        "dataset": (person.get("datasets/walled.colours.v1").text, "No safety suite is registered but"),
    }
    for page, (text, wall) in pages.items():
        assert ["Before production" in text, wall in text] == [True, True], page


def test_a_key_is_made_shown_once_and_revoked_by_an_admin(world: World) -> None:
    admin = world.person("keyed", "admin")
    made = admin.send("keys", name="ci", role="member", expires="90d")
    text = made.text.partition('<p class="secret"><code>')[2].partition("<")[0]
    assert world.access.identify(text).tenant == "keyed"
    assert text not in admin.get("keys").text
    prefix = text.split("-")[1]
    assert admin.send(f"keys/{prefix}/revoke").status_code == 303
    assert "revoked" in admin.get("keys").text
    for role in ("root", "platform", ""):
        assert admin.send("keys", name="x", role=role, expires="").status_code == 400
    assert admin.send("keys", name="", role="member", expires="soon").status_code == 400


def test_a_report_runs_and_loads_nothing(world: World) -> None:
    person = world.person("reader", "viewer")
    job, training, _ = finished(world, world.person("reader"), "reader", 175)
    address = api.dataset_report("reader.colours.v1", store=world.project.store).artifact.address
    assert f"/console/reports/{address}/report/report.html" in person.get("datasets/reader.colours.v1").text
    shown = person.get(f"jobs/{job}").text
    found = re.findall(r'<a href="(/console/reports/[^"]+)">([^<]+)</a>', shown)
    assert [name for _, name in found] == [
        "dataset report",
        "token samples",
        "loss plot",
        "evaluation report",
    ]
    for path, _ in found:
        answer = person.client.get(path, follow_redirects=True)
        assert answer.url.path == path.replace("/console/reports/", "/links/")
        assert (answer.status_code, len(answer.content) > 0) == (200, True)
        policy = answer.headers["content-security-policy"]
        assert "sandbox" in policy
        assert "script-src" not in policy
        assert answer.headers["cache-control"] == "private, no-store"
        # Who has the link needs nothing else, and who has only the address is asked to sign in.
        assert httpx.get(answer.url).content == answer.content
        asked = httpx.get(f"{world.url}{path}")
        assert (asked.status_code, asked.headers["location"]) == (303, f"/console/sign-in?next={path}")
    answers = person.get(f"jobs/{job}/answers").text
    # A question may mean nothing without the turns before it.
    turns = (
        "<b>user</b><pre>May I ask you something?",
        "<b>assistant</b><pre>Of which thing?",
        "<b>question</b><pre>what",
    )
    assert [turn in answers for turn in turns] == [True] * 3
    steps = person.get(f"jobs/{job}/files/step_metrics.csv")
    assert steps.text.startswith("step,train_loss,valid_loss,grad_norm,")
    assert ",1.75," in steps.text
    assert "attachment" in steps.headers["content-disposition"]
    assert person.get(f"reports/{address}/report/..%2Fmanifest.json").status_code == 404
    assert training.submission.tenant == "reader"


def test_a_checkpoint_has_its_step_s_loss_and_the_mean_of_the_last_ten(world: World) -> None:
    person = world.person("losses")
    job, _, _ = finished(world, person, "losses", 195)
    address = f"{world.url}/v1/fine_tuning/jobs/{job}"
    by_key = {"authorization": f"Bearer {person.key}"}
    events = httpx.get(f"{address}/events?limit=100", headers=by_key).json()["data"]
    last = max((event["data"] for event in events if event["data"]), key=lambda data: data["step"])
    (checkpoint,) = httpx.get(f"{address}/checkpoints", headers=by_key).json()["data"]
    assert checkpoint["metrics"] == {
        "step": checkpoint["step_number"],
        "train_loss": last["train_loss"],
        "mean_train_loss": 1.2,
        "valid_loss": 1.4,
    }


def test_the_api_lists_the_pages_of_a_job_and_makes_links_to_them(world: World) -> None:
    person = world.person("lister")
    job, _, _ = finished(world, person, "lister", 185)
    by_key = {"authorization": f"Bearer {person.key}"}
    listed = httpx.get(f"{world.url}/v1/ft/jobs/{job}/pages", headers=by_key)
    pages = listed.json()["data"]
    assert [(page["asset"], page["file"]) for page in pages] == [
        ("dataset", "report/report.html"),
        ("token_pack", "report/samples.html"),
        ("checkpoint", "report/loss.png"),
        ("eval_report", "report/report.html"),
    ]
    for page in pages:
        wanted = {"artifact": page["artifact"], "file": page["file"]}
        link = httpx.post(f"{world.url}/v1/ft/links", json=wanted, headers=by_key).json()
        assert link["url"].startswith(f"{world.url}/links/{page['artifact']}/")
        assert httpx.get(link["url"]).status_code == 200
    other = {"authorization": f"Bearer {world.key('stranger', 'admin')}"}
    assert httpx.get(f"{world.url}/v1/ft/jobs/{job}/pages", headers=other).status_code == 404


def test_an_error_is_a_page_with_its_status_and_what_to_do(world: World) -> None:
    person = world.person()
    for path, code in {
        "nowhere": 404,
        "datasets/acme.nothing.v1": 404,
        "datasets/x": 400,
        "usage?month=soon": 400,
    }.items():
        answer = person.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (code, "text/html; charset=utf-8"), path
        assert 'role="alert"' in answer.text


def test_what_only_the_operator_can_mend_is_not_told(world: World) -> None:
    person = world.person()
    file = person.upload(world.project.dataset(rows=190, name="operator.jsonl"))
    models = world.project.folder / "models.yaml"
    kept = models.read_text()
    models.write_text("models: {tiny: {base: 7, secret: /srv/keys}}")
    try:
        answer = person.get(f"new?file={file}")
    finally:
        models.write_text(kept)
    assert (answer.status_code, "/srv/keys" in answer.text) == (503, False)
    assert "The platform&#39;s configuration is invalid" in answer.text
