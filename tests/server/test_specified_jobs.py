"""Jobs at the addresses of the specification: the same jobs as in OpenAI's dialect, in its words."""

import re
import time
from typing import Any

import httpx
import pytest
import yaml

from ft_assets import api
from ft_assets.control import identity
from ft_assets.control.jobs.recipe import recipe_of_job
from ft_assets.records.jobs import get_job
from ft_assets.records.pauses import record_pause
from ft_assets.records.submissions import SubmissionStatus, find_submission, finish
from ft_assets.settings.catalogue.gates.safety import SafetyGate
from ft_assets.settings.recipe.acceptance import GateSettings
from ft_assets.settings.shipped_suites import BOOKS, MADE_SAFETY
from ft_assets.workers.suites.suites import add_suite
from ft_resources.artifacts import Address, Artifacts
from ft_resources.attempts import Attempt
from ft_resources.outcomes import Outcome
from tests.choice_suite import write_choice_suite
from tests.e2e.project import SUITE, Project
from tests.server.conftest import Asker, until
from tests.server.console.fake_training import FakeTraining
from tests.workers.evals.safety_world import write_safety_suite

JOBS, THEIRS = "/fine-tuning/jobs", "/fine_tuning/jobs"
QUESTION = {"question": "2 + 2?", "choices": ["4", "5"], "answer": 0}
ADAPTER = str(Address(tenant="acme", asset="adapter", fingerprint="ab" * 32))


def uploaded(http: httpx.Client, project: Project) -> str:
    """The id of a file of rows."""
    with project.dataset().open("rb") as rows:
        form: Any = {"files": {"file": ("rows.jsonl", rows)}, "data": {"purpose": "fine-tune"}}
        return str(http.post("/files", **form).json()["id"])


def asked(http: httpx.Client, project: Project, **more: Any) -> dict[str, Any]:
    """A new job, once its file was looked at."""
    body = {"base_model": "tiny", "training_file": uploaded(http, project), "method": "lora", **more}
    answer = http.post(JOBS, json=body)
    assert answer.status_code == 200, answer.text
    return looked_at(http, answer.json())


def looked_at(http: httpx.Client, job: dict[str, Any]) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found: dict[str, Any] = http.get(f"{JOBS}/{job['job_id']}").json()
        return found if found["training_file_version"] or found["status"] in ("failed", "cancelled") else None

    found: dict[str, Any] = until(look)
    return found


def ended(project: Project, http: httpx.Client, job: dict[str, Any], status: SubmissionStatus) -> None:
    """End the job's submission."""
    theirs = http.get(f"{THEIRS}/{job['job_id']}").json()
    found = find_submission(project.store, "acme", theirs["ft"]["submission"])
    assert found is not None
    finish(project.store, found, status, adapter=ADAPTER if status is SubmissionStatus.ACCEPTED else "", reason="why")


def error_of(answer: httpx.Response) -> tuple[int, str | None, str]:
    error = answer.json()["error"]
    return answer.status_code, error["param"], error["message"]


def test_a_job_has_every_member_of_the_specification_and_is_the_same_in_openais_dialect(
    project: Project, asker: Asker
) -> None:
    http, before = asker(), int(time.time())
    settings = {"n_epochs": 2, "batch_size": "auto", "lora_rank": 4, "lora_target_modules": ["q_proj"]}
    job = asked(http, project, hyperparameters=settings)
    assert (job["status"], job["method"], job["training_file_version"]) == ("queued", "lora", "acme.rows.v1")
    assert re.fullmatch("tiny@sha256:[0-9a-f]{64}", job["base_model"])
    assert before <= job["created_at"] <= job["estimated_start"]
    later = ("step", "loss", "grad_norm", "tokens_per_sec", "checkpoint_path", "cost", "fine_tuned_model", "error")
    assert [job[name] for name in later] == [None] * len(later)
    theirs = http.get(f"{THEIRS}/{job['job_id']}").json()
    assert (theirs["id"], theirs["ft"]["dataset"]) == (job["job_id"], job["training_file_version"])
    assert theirs["method"]["lora"]["hyperparameters"] == job["hyperparameters"]
    assert job["hyperparameters"] == {name: value for name, value in settings.items() if value != "auto"}
    recipe, _ = api.resolved_recipe(theirs["ft"]["recipe"], store=project.store)
    assert (recipe.training.epochs, recipe.lora.rank, recipe.lora.target_modules) == (2, 4, ("q_proj",))
    listed = http.get(JOBS, params={"limit": 1}).json()
    assert (listed["data"][0]["job_id"], listed["last_id"]) == (job["job_id"], job["job_id"])
    ended(project, http, job, SubmissionStatus.ACCEPTED)
    done = http.get(f"/jobs/{job['job_id']}").json()
    assert (done["status"], done["estimated_completion"] >= done["estimated_start"]) == ("succeeded", True)
    assert done["fine_tuned_model"] == http.get(f"{THEIRS}/{job['job_id']}").json()["fine_tuned_model"]


@pytest.mark.parametrize(
    ("method", "trained"),
    [
        ("lora", ("sft", "lora")),
        ("sft", ("sft", "full")),
        ("dpo", ("dpo", "lora")),
        ("orpo", ("orpo", "lora")),
        ("kto", ("kto", "lora")),
        ("simpo", ("simpo", "lora")),
        ("cpt", ("cpt", "lora")),
    ],
)
def test_every_method_is_asked_for_by_its_name_in_both_dialects(
    project: Project, asker: Asker, method: str, trained: tuple[str, str]
) -> None:
    http, file = asker(), uploaded(asker(), project)
    mine = http.post(JOBS, json={"base_model": "tiny", "training_file": file, "method": method})
    theirs = http.post(
        THEIRS,
        json={"model": "tiny", "training_file": file, "method": {"type": method, method: {"hyperparameters": {}}}},
    )
    # The same request in other words, though another job where the first has failed on these rows by now.
    for job_id in (mine.json()["job_id"], theirs.json()["id"]):
        job = get_job(project.store, "acme", job_id.removeprefix("ftjob-"))
        recipe = recipe_of_job(job, api.offered_models().models["tiny"])
        assert (recipe.method, recipe.variant) == trained


def test_the_short_way_takes_a_dataset(project: Project, asker: Asker) -> None:
    http = asker()
    first = asked(http, project)
    body = {"base_model": "tiny", "dataset_id": first["training_file_version"], "hyperparams": {"n_epochs": 3}}
    job = looked_at(http, http.post("/jobs", json=body).json())
    assert (job["job_id"] != first["job_id"], job["training_file_version"]) == (True, first["training_file_version"])
    assert (job["training_file"], job["hyperparameters"]) == (first["training_file_version"], {"n_epochs": 3})
    theirs = http.get(f"{THEIRS}/{job['job_id']}").json()
    assert theirs["training_file"] == first["training_file_version"]


def test_the_same_idempotency_key_is_the_same_job(project: Project, asker: Asker) -> None:
    http, file = asker(), uploaded(asker(), project)
    body = {"base_model": "tiny", "training_file": file, "idempotency_key": "mine"}
    first = http.post(JOBS, json=body).json()["job_id"]
    del body["idempotency_key"]
    key = {"Idempotency-Key": "mine"}
    assert http.post(JOBS, json=body, headers=key).json()["job_id"] == first
    assert http.post(JOBS, json=body | {"method": "sft"}, headers=key).status_code == 409
    both = http.post(JOBS, json=body | {"idempotency_key": "other"}, headers=key)
    assert error_of(both)[:2] == (400, "idempotency_key")


def test_a_base_may_be_named_by_its_files_and_then_it_has_no_others(project: Project, asker: Asker) -> None:
    http = asker()
    named = asked(http, project)["base_model"]
    assert asked(http, project, base_model=named)["base_model"] == named
    other = asked(http, project, base_model=f"tiny@sha256:{'0' * 64}")
    assert (other["status"], other["error"]["param"]) == ("failed", "model")
    assert named in other["error"]["message"]


WRONG: list[tuple[str, dict[str, Any], str, str]] = [
    (JOBS, {"base_model": "nothing"}, "base_model", "List models"),
    (JOBS, {"base_model": "tiny@main"}, "base_model", "sha256"),
    (JOBS, {"base_model": None, "model": "tiny"}, "model", "base_model"),
    (JOBS, {"method": "ppo"}, "method", "'orpo'"),
    (JOBS, {"method": {"type": "lora"}}, "method", "'orpo'"),
    (JOBS, {"hyperparameters": {"rank": 4}}, "hyperparameters", "lora_rank"),
    (JOBS, {"hyperparameters": {"batch_size": "many"}}, "hyperparameters", "auto"),
    (JOBS, {"method": "sft", "hyperparameters": {"lora_rank": 4}}, "hyperparameters.lora_rank", "the method lora"),
    (JOBS, {"method": "cpt", "hyperparameters": {"beta": 1}}, "hyperparameters.beta", "dpo, orpo, kto, simpo"),
    (JOBS, {"training_file": "acme.none.v1"}, "training_file", "List files and datasets"),
    (JOBS, {"training_file": "globex.none.v1"}, "training_file", "List datasets"),
    (JOBS, {"training_file": "nope"}, "training_file", "there is no dataset 'nope'"),
    (JOBS, {"training_file": "dataset-nope"}, "training_file", "there is no dataset 'dataset-nope'"),
    ("/jobs", {"dataset_id": "dataset-nope"}, "dataset_id", "there is no dataset 'dataset-nope'"),
    (JOBS, {"base_model": "tiny@sha256:1"}, "base_model", "64 digits"),
    (JOBS, {"validation_file": "dataset-1"}, "validation_file", "there is no file 'dataset-1'. Send the id of a file"),
    (JOBS, {"eval_config": {"task_eval_file": "acme.a.v1"}}, "eval_config.task_eval_file", "POST /v1/files"),
    (JOBS, {"eval_config": {"safety_scan": "yes"}}, "eval_config.safety_scan", "true or false"),
    (JOBS, {"idempotency_key": "\0dataset mine"}, "idempotency_key", ""),
    (JOBS, {"eval_config": {"run_mmlu": True}}, "run_mmlu", "run_mmlu_regression"),
    (JOBS, {"eval_config": {"run_mmlu_regression": True}}, "eval_config.run_mmlu_regression", "ft suite install mmlu"),
    (JOBS, {"eval_config": {"task_eval_file": "file-1"}}, "eval_config.task_eval_file", ""),
    (f"{JOBS}?dry_run=1", {}, "dry_run", "Leave it out"),
    ("/jobs", {"training_file": "x"}, "training_file", "dataset_id"),
    ("/jobs", {"hyperparams": {"epochs": 1}}, "hyperparams", "n_epochs"),
]


def test_what_is_not_supported_is_refused_by_name_with_what_to_write_instead(project: Project, asker: Asker) -> None:
    http, file = asker(), uploaded(asker(), project)
    for address, wrong, param, instead in WRONG:
        rows = "dataset_id" if address == "/jobs" else "training_file"
        given = {"base_model": "tiny", rows: file} | wrong
        body = {name: value for name, value in given.items() if value is not None}
        code, named, message = error_of(http.post(address, json=body))
        assert (code in (400, 404), named, instead in message) == (True, param, True), (wrong, code, named, message)
    assert error_of(http.get(f"{JOBS}?status=queued"))[:2] == (400, "status")


def test_a_cancelled_or_failed_job_is_resumed_and_goes_on_as_the_same_job(project: Project, asker: Asker) -> None:
    http = asker()
    job = asked(http, project)
    at = f"{JOBS}/{job['job_id']}"
    assert error_of(http.post(f"{at}/resume"))[2].startswith(f"job {job['job_id']}: it is queued")
    assert http.post(f"{at}/cancel").json()["status"] == "cancelled"
    assert http.post(f"{at}/resume").json()["status"] == "queued"
    again = looked_at(http, job)
    assert (again["status"], again["training_file_version"]) == ("queued", job["training_file_version"])
    ended(project, http, job, SubmissionStatus.FAILED)
    assert http.get(at).json()["status"] == "failed"
    assert http.post(f"{at}/resume").json()["status"] == "queued"
    looked_at(http, job)
    ended(project, http, job, SubmissionStatus.ACCEPTED)
    assert http.get(at).json()["status"] == "succeeded"
    assert http.get("/models").json()["data"][0]["id"] == http.get(at).json()["fine_tuned_model"]
    assert "succeeded" in error_of(http.post(f"{at}/resume"))[2]


def test_a_job_that_was_cancelled_before_its_file_was_read_is_resumed_from_the_beginning(
    project: Project, asker: Asker, served: Any
) -> None:
    settle = served.state.context.settle
    object.__setattr__(served.state.context, "settle", lambda job: None)
    http = asker()
    body = {"base_model": "tiny", "training_file": uploaded(http, project)}
    job = http.post(JOBS, json=body).json()
    assert http.post(f"{JOBS}/{job['job_id']}/cancel").json()["status"] == "cancelled"
    object.__setattr__(served.state.context, "settle", settle)
    assert http.post(f"{JOBS}/{job['job_id']}/resume").json()["status"] == "queued"
    assert looked_at(http, job)["training_file_version"] == "acme.rows.v1"


def test_a_rejected_candidate_is_not_resumed(project: Project, asker: Asker) -> None:
    http = asker()
    job = asked(http, project)
    ended(project, http, job, SubmissionStatus.REJECTED)
    code, _, message = error_of(http.post(f"{JOBS}/{job['job_id']}/resume"))
    assert (code, "Create another job" in message) == (400, True)


def test_what_is_evaluated_beyond_the_recipe_is_a_suite_a_gate_or_a_holdout(project: Project, asker: Asker) -> None:
    http, store = asker(), project.store
    add_suite(store, write_choice_suite(project.folder / "mmlu", "mmlu", [QUESTION]), "mmlu.v1", "test")
    add_suite(store, write_safety_suite(project.folder / "care"), "care.v1", "test")
    held_out = project.dataset(20, "others.jsonl")
    with held_out.open("rb") as rows:
        form: Any = {"files": {"file": ("others.jsonl", rows)}, "data": {"purpose": "fine-tune"}}
        file = http.post("/files", **form).json()["id"]
    wanted = {"run_mmlu_regression": True, "safety_scan": True, "task_eval_file": file}
    job = asked(http, project, eval_config=wanted)
    assert job["eval_config"] == wanted
    recipe, _ = api.resolved_recipe(http.get(f"{THEIRS}/{job['job_id']}").json()["ft"]["recipe"], store=store)
    assert recipe.evaluation.suites == (SUITE, "mmlu.v1", "care.v1")
    assert isinstance(recipe.gates, GateSettings)
    assert recipe.gates.safety == SafetyGate()
    raw = identity.raw_dataset(Artifacts(store), job["training_file_version"])
    assert [name for name in raw.manifest.files if name.startswith("holdout/")] == ["holdout/others.jsonl"]
    # Another one without them has the model's own recipe.
    plain = asked(http, project)
    assert api.resolved_recipe(http.get(f"{THEIRS}/{plain['job_id']}").json()["ft"]["recipe"], store=store) != recipe


def test_eval_config_has_a_model_without_gates_judged_by_the_default_ones(project: Project, asker: Asker) -> None:
    file = project.folder / "models.yaml"
    models = yaml.safe_load(file.read_text())
    models["models"]["tiny"]["recipe"] |= {"gates": "none", "evaluation": {"suites": []}}
    file.write_text(yaml.safe_dump(models))
    http = asker()
    job = asked(http, project, eval_config={"safety_scan": True})
    key = http.get(f"{THEIRS}/{job['job_id']}").json()["ft"]["recipe"]
    recipe, _ = api.resolved_recipe(key, store=project.store)
    assert recipe.evaluation.suites == (MADE_SAFETY, BOOKS)
    assert isinstance(recipe.gates, GateSettings)
    assert recipe.gates.safety == SafetyGate()


def test_the_figures_of_a_training_are_those_of_its_records(project: Project, asker: Asker) -> None:
    http = asker()
    job = asked(http, project)
    theirs = http.get(f"{THEIRS}/{job['job_id']}").json()
    submission = find_submission(project.store, "acme", theirs["ft"]["submission"])
    assert submission is not None
    work = FakeTraining(project.store, submission)
    work.prepare()
    work.train(10)
    at = f"{JOBS}/{job['job_id']}"
    before = int(time.time())
    now = http.get(at).json()
    assert (now["status"], now["step"], now["steps"], now["grad_norm"]) == ("running", 10, 40, 1.75)
    assert now["estimated_completion"] >= before + 60
    training = identity.checkpoint_request(Artifacts(project.store), submission.dataset, submission.recipe)
    attempt = Attempt(project.store, training.address, 1)
    assert (now["checkpoint_path"], now["cost"]) == (None, None)
    project.store.put(f"{attempt.path}/saves/000005/save.json", b"{}")
    project.store.put(f"{attempt.path}/saves/000009/model.safetensors", b"not complete yet")
    assert http.get(at).json()["checkpoint_path"] == project.store.url_of(f"{attempt.path}/saves/000005")
    # Its worker still saves.
    record_pause(project.store, submission, actor="ann", reason="lunch")
    assert http.get(at).json()["status"] == "checkpointing"
    attempt.record_ending(Outcome.CANCELLED)
    attempt.write_launch({"launcher": "local"})
    now = http.get(at).json()
    # On a CPU: no GPU-hours, and they cost nothing.
    assert (now["status"], now["gpu_hours"], now["cost"], now["currency"]) == ("preempted", 0.0, 0.0, "USD")
    assert http.post(f"{at}/resume").json()["status"] in ("running", "queued", "provisioning")
    work.evaluate()
    work.accept()
    done = http.get(at).json()
    assert done["checkpoint_path"] == project.store.url_of(training.address.path)
    assert done["fine_tuned_model"].startswith("ft:tiny:acme:")
