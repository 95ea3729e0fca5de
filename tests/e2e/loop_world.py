"""Unattended runs around a daemon, and how a test waits for them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
import yaml

from ft_assets.control.lines.lines import Pointer, read_line
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.graph.declared import declared
from ft_assets.graph.run import drive
from ft_assets.records.submissions import Submission, SubmissionOutcome, all_submissions, find_outcome, open_submissions
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.suites.suites import add_suite
from ft_resources.dagster_resources import StoreResource
from ft_resources.hub import HuggingFaceHub
from ft_resources.store import Store
from tests.e2e.dagster_server import LONG_S, DagsterServer, wait_for
from tests.e2e.project import Project
from tests.fake_hub import FakeHub, hub_server
from tests.safe_base import task_rows
from tests.workers.evals.safety_world import write_safety_suite


@contextmanager
def hub_with_recipe(project: Project, base: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A Hub that workers and daemon can reach, with the base ``org/tiny``, and the recipe ``tiny.v1`` on it."""
    hub = FakeHub()
    hub.commit("org/tiny", base)
    with hub_server(hub) as endpoint:
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        recipe = project.recipe(
            base="hub:org/tiny@main",
            steps=120,
            lora={"rank": 8},
            evaluation={"suites": ["colours.v1", "care.v1"], "holdout": {"max_samples": 60, "max_new_tokens": 8}},
            gates={"safety": {}, "task_gain": {"metric": "perplexity", "min_relative": 0.8}},
            promotion={"staging_margin": 0.8},
        )
        register_recipe(project.store, recipe, actor="ann", hub=HuggingFaceHub(endpoint))
        yield hub


def upload(project: Project, name: str, count: int, *, capitals: bool = False) -> None:
    rows = ({"prompt": prompt, "completion": answer} for prompt, answer in task_rows(count, capitals=capitals))
    # Enough rows in the holdout that each draw of it has some of the task and some that the base knew.
    policy = DatasetPolicy.model_validate({"split": {"holdout": 0.3}})
    path = project.rows(f"{name}.jsonl", rows)
    add_dataset_version(project.store, path, tenant="acme", name=name, policy=policy, actor="ann")


def set_up(project: Project, patch: pytest.MonkeyPatch, *subscribed: str, **acme: object) -> None:
    """The suite of harmful prompts, and a tenants file: acme subscribes these datasets to ``tiny.v1``."""
    subscriptions = [{"dataset": name, "recipe": "tiny.v1"} for name in subscribed]
    settings = {
        "served_bases": ["hub:org/tiny"],
        # The suite is too small to show that nothing is lost.
        "production_regression": {"max_drop_points": 100.0},
        "tenants": {"acme": {"subscriptions": subscriptions, **acme}},
    }
    (project.folder / "tenants.yaml").write_text(yaml.safe_dump(settings))
    patch.setenv("FT_TENANTS", str(project.folder / "tenants.yaml"))
    add_suite(project.store, write_safety_suite(project.folder / "care"), "care.v1", "test")


class Daemon:
    """Does in this process what a daemon does: looks at sensors, and runs what they launch, one after the other."""

    def __init__(self, project: Project) -> None:
        self._project, self._instance = project, project.instance()

    def look(self, *sensors: dg.SensorDefinition) -> None:
        """One tick of each sensor; then what is submitted runs to its end."""
        store = self._project.store
        for sensor in sensors:
            context = dg.build_sensor_context(instance=self._instance)
            found = sensor(context, store=StoreResource(url=self._project.store_url))
            for request in found.run_requests or () if isinstance(found, dg.SensorResult) else ():
                job = declared(self._project.store_url).resolve_job_def("pull_dataset")
                done = job.execute_in_process(
                    run_config=request.run_config, tags=request.tags, instance=self._instance, raise_on_error=False
                )
                assert done.success
        for submission in open_submissions(store):
            drive(store, self._instance, submission)


def asked(store: Store, pair: str, mode: str) -> Submission | None:
    found = [each for each in all_submissions(store, "acme") if (each.pair, each.mode) == (pair, mode)]
    assert len(found) <= 1, found
    return found[0] if found else None


def ended(store: Store, pair: str, mode: str = "train") -> SubmissionOutcome:
    """How the pair's submission ended, which nobody but a sensor made; waits for it."""

    def outcome() -> SubmissionOutcome | None:
        submission = asked(store, pair, mode)
        return find_outcome(store, submission) if submission else None

    found = wait_for(outcome, LONG_S, f"the end of {mode} {pair}")
    submission = asked(store, pair, mode)
    assert submission is not None
    assert submission.origin == "sensor"
    return found


def standing(store: Store, line: str, stage: Pointer) -> str:
    record = read_line(store, line).at(stage)
    return record.adapter.address if record else ""


def act(server: DagsterServer, store: Store, job: str, name: str, **config: str) -> None:
    """Promote to production or roll back by the UI's job; returns once the line's log has the record."""
    before = len(read_line(store, name).records)
    op = {"promote": "record_promotion", "rollback": "record_rollback"}[job]
    server.launch(job, {"ops": {op: {"config": {"reason": "we want it", **config}}}})
    wait_for(lambda: len(read_line(store, name).records) > before, LONG_S, f"{job} of {name}")
