"""The way of a job, as OpenAI's own client goes it: upload, create, poll, events, model, cancel."""

import io
import json
from typing import Any

import openai
import pytest

from ft_assets import api
from ft_assets.records import jobs
from ft_assets.records.jobs import SettledJob
from ft_assets.records.pauses import read_pauses
from ft_assets.records.sorted_ids import new_id
from ft_assets.records.submissions import SubmissionStatus, all_submissions, finish
from ft_resources.artifacts import Address, Artifacts
from tests.e2e.project import Project
from tests.server.conftest import Client, settled, submission_of, until, upload

ADAPTER = str(Address(tenant="acme", asset="adapter", fingerprint="ab" * 32))


def test_an_upload_becomes_a_job_and_a_job_a_submission(project: Project, client: Client) -> None:
    acme = client()
    file = upload(acme, project.dataset())
    shown = acme.files.retrieve(file)
    assert (shown.filename, shown.purpose, shown.status) == ("rows.jsonl", "fine-tune", "processed")
    assert shown.bytes == project.dataset().stat().st_size
    assert acme.files.content(file).read() == project.dataset().read_bytes()
    job = acme.fine_tuning.jobs.create(
        model="tiny",
        training_file=file,
        suffix="colours",
        seed=5,
        metadata={"team": "paint"},
        method={"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 2, "batch_size": "auto"}}},
    )
    assert (job.object, job.model, job.training_file) == ("fine_tuning.job", "tiny", file)
    assert (job.hyperparameters.n_epochs, job.seed, job.organization_id) == (2, 5, "acme")
    job = settled(acme, job.id)
    assert (job.status, job.error) == ("queued", None)
    submission = submission_of(project, job)
    recipe, _ = api.resolved_recipe(submission.recipe, store=project.store)
    assert (submission.dataset, submission.origin) == ("acme.colours.v1", "api")
    assert (recipe.training.epochs, recipe.training.seed, recipe.method) == (2, 5, "sft")
    assert submission.actor.startswith("ann (key ")
    assert any("is not on the servers of acme" in wall for wall in job.model_extra["ft"]["walls"])
    # Deleting the file takes nothing from the job: the dataset has its own copy.
    assert acme.files.delete(file).deleted
    assert list(acme.files.list()) == []
    assert acme.fine_tuning.jobs.retrieve(job.id).status == "queued"


def test_an_accepted_job_gives_a_model_and_events_tell_its_way(project: Project, client: Client) -> None:
    acme = client()
    file = upload(acme, project.dataset())
    job = settled(acme, acme.fine_tuning.jobs.create(model="tiny", training_file=file, suffix="colours").id)
    finish(project.store, submission_of(project, job), SubmissionStatus.ACCEPTED, adapter=ADAPTER)
    job = acme.fine_tuning.jobs.retrieve(job.id)
    name = job.fine_tuned_model
    assert (job.status, name) == ("succeeded", f"ft:tiny:acme:colours:{job.id.removeprefix('ftjob-')}")
    assert job.finished_at >= job.created_at
    model = acme.models.retrieve(name)
    assert (model.id, model.owned_by, model.model_extra["ft"]["adapter"]) == (name, "acme", ADAPTER)
    assert [each.id for each in acme.models.list()] == [name, "tiny"]
    events = list(acme.fine_tuning.jobs.list_events(job.id))
    assert events[0].message == "The job has successfully completed"
    assert events[1].message == f"New fine-tuned model created: {name}"
    assert events[-1].message == f"Created fine-tuning job: {job.id}"
    assert len({event.id for event in events}) == len(events) >= 5
    # Pages of one give the same, in the same order.
    assert [event.id for event in acme.fine_tuning.jobs.list_events(job.id, limit=1)] == [each.id for each in events]


@pytest.mark.parametrize("damage", ["no JSON", "no job", "its submission is gone"])
def test_a_job_whose_records_are_damaged_hides_no_other_model(
    project: Project, client: Client, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    acme, store = client(), project.store
    job = settled(acme, acme.fine_tuning.jobs.create(model="tiny", training_file=upload(acme, project.dataset())).id)
    finish(store, submission_of(project, job), SubmissionStatus.ACCEPTED, adapter=ADAPTER)
    name = acme.fine_tuning.jobs.retrieve(job.id).fine_tuned_model
    damaged = jobs.get_job(store, "acme", job.id.removeprefix("ftjob-")).model_copy(update={"id": new_id()})
    if damage == "its submission is gone":
        damaged.create(store, damaged.path)
        SettledJob(submission="gone", at=0.0).create(store, jobs.settled_path(damaged.tenant, damaged.id))
    else:
        store.put(damaged.path, b"{" if damage == "no JSON" else b"{}")
    assert [each.id for each in acme.models.list()] == [name, "tiny"]
    assert f"the model of ftjob-{damaged.id} is not listed" in caplog.text


def test_a_rejected_job_has_failed_with_its_gates_and_advice(project: Project, client: Client) -> None:
    acme = client()
    job = settled(acme, acme.fine_tuning.jobs.create(model="tiny", training_file=upload(acme, project.dataset())).id)
    finish(
        project.store,
        submission_of(project, job),
        SubmissionStatus.REJECTED,
        reason="regression: acc fell by 13 points",
        suggestions=("lower the learning rate",),
    )
    job = acme.fine_tuning.jobs.retrieve(job.id)
    assert (job.status, job.error.code, job.fine_tuned_model) == ("failed", "gates_rejected", None)
    assert "acc fell by 13 points" in job.error.message
    assert "lower the learning rate" in job.error.message
    assert next(iter(acme.fine_tuning.jobs.list_events(job.id))).level == "error"


def test_rows_that_cannot_be_used_are_told_with_file_row_and_remedy(client: Client) -> None:
    acme = client()
    row = json.dumps({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})
    rows = f"{row}\n{{}}\n".encode()
    file = acme.files.create(file=("rows.jsonl", io.BytesIO(rows)), purpose="fine-tune").id
    job = settled(acme, acme.fine_tuning.jobs.create(model="tiny", training_file=file).id)
    assert (job.status, job.error.code, job.error.param) == ("failed", "invalid_training_file", "training_file")
    assert "rows.jsonl, row 2" in job.error.message


def test_a_job_is_paused_resumed_and_cancelled(project: Project, client: Client) -> None:
    acme = client()
    job = settled(acme, acme.fine_tuning.jobs.create(model="tiny", training_file=upload(acme, project.dataset())).id)
    assert acme.fine_tuning.jobs.pause(job.id).status == "paused"
    assert read_pauses(project.store, submission_of(project, job)).standing is not None
    assert acme.fine_tuning.jobs.resume(job.id).status == "queued"
    assert acme.fine_tuning.jobs.cancel(job.id).status == "cancelled"
    # Cancelling again is no error, as a client that got no answer does so.
    assert acme.fine_tuning.jobs.cancel(job.id).status == "cancelled"
    with pytest.raises(openai.BadRequestError, match="ended already"):
        acme.fine_tuning.jobs.pause(job.id)


def test_asking_again_gives_the_first_job(project: Project, client: Client) -> None:
    acme, file = client(), None
    file = upload(acme, project.dataset())
    asked = {"model": "tiny", "training_file": file}
    first = acme.fine_tuning.jobs.create(**asked)
    # A client that got no answer repeats its request without a key.
    assert acme.fine_tuning.jobs.create(**asked).id == first.id
    other = acme.fine_tuning.jobs.create(**asked, extra_headers={"Idempotency-Key": "mine"})
    assert other.id != first.id
    assert acme.fine_tuning.jobs.create(**asked, extra_headers={"Idempotency-Key": "mine"}).id == other.id
    with pytest.raises(openai.ConflictError, match="used for another request"):
        acme.fine_tuning.jobs.create(**asked, seed=9, extra_headers={"Idempotency-Key": "mine"})
    # Another tenant's key of the same text is another.
    globex = client("globex")
    mine = globex.fine_tuning.jobs.create(
        model="tiny", training_file=upload(globex, project.dataset()), extra_headers={"Idempotency-Key": "mine"}
    )
    assert mine.id not in (first.id, other.id)
    assert [job.id for job in acme.fine_tuning.jobs.list()] == [other.id, first.id]
    until(lambda: len(all_submissions(project.store, "acme")) == 2)


@pytest.mark.parametrize("method", ["supervised", "dpo"])
def test_a_job_is_asked_for_again_as_it_was_answered(project: Project, client: Client, method: str) -> None:
    acme = client()
    file = upload(acme, project.dataset())
    how: Any = {"type": method, method: {"hyperparameters": {"n_epochs": 2, "batch_size": "auto"}}}
    first = acme.fine_tuning.jobs.create(model="tiny", training_file=file, method=how, metadata={"team": "paint"})
    for answered in (first.to_dict(), first.model_dump()):
        names = ("model", "training_file", "validation_file", "method", "hyperparameters", "seed", "metadata")
        asked: Any = {name: answered[name] for name in (*names, "integrations")}
        again = acme.fine_tuning.jobs.create(
            **asked, suffix=answered["user_provided_suffix"], extra_headers={"Idempotency-Key": f"{len(answered)}"}
        )
        assert (again.method, again.hyperparameters) == (first.method, first.hyperparameters)


def test_jobs_are_listed_newest_first_in_pages_and_by_metadata(project: Project, client: Client) -> None:
    acme = client()
    file = upload(acme, project.dataset())
    ids = [
        acme.fine_tuning.jobs.create(model="tiny", training_file=file, seed=seed, metadata={"half": str(seed % 2)}).id
        for seed in range(5)
    ]
    assert [job.id for job in acme.fine_tuning.jobs.list(limit=2)] == ids[::-1]
    page = acme.fine_tuning.jobs.list(limit=2, after=ids[3])
    assert [job.id for job in page.data] == [ids[2], ids[1]]
    assert page.has_more
    found = acme.fine_tuning.jobs.list(extra_query={"metadata[half]": "1"})
    assert [job.id for job in found] == [ids[3], ids[1]]
    with pytest.raises(openai.BadRequestError, match="no 'ftjob-nothing' in this list"):
        acme.fine_tuning.jobs.list(after="ftjob-nothing")


def test_a_validation_file_becomes_the_version_s_own_validation_rows(project: Project, client: Client) -> None:
    acme = client()
    train, other = (upload(acme, project.dataset(rows, name)) for rows, name in ((150, "a.jsonl"), (170, "b.jsonl")))
    job = acme.fine_tuning.jobs.create(model="tiny", training_file=train, validation_file=other)
    job = settled(acme, job.id)
    assert (job.status, job.validation_file) == ("queued", other)
    (listed,) = api.list_datasets(tenant="acme", store=project.store)
    raw = Artifacts(project.store).get(Address.parse(listed.record["address"]))
    assert {name.partition("/")[0] for name in raw.manifest.files} >= {"upload", "validation"}
