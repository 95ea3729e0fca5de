"""What happens by itself around a real daemon, and how a test waits for it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ft_assets.control.lines.lines import Pointer, read_line
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.records.submissions import (
    Submission,
    SubmissionOutcome,
    all_submissions,
    find_outcome,
)
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_resources.hub import HuggingFaceHub
from ft_resources.store import Store
from tests.e2e.dagster_server import DagsterServer, wait_for
from tests.e2e.project import Project
from tests.fake_hub import FakeHub, hub_server
from tests.safe_base import make_safe_base, task_rows

# Of a machine that does other things too; nothing here is about speed.
LONG = 600


@contextmanager
def hub_with_recipe(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A Hub that workers and daemon can reach, with a base that refuses what it should, and the recipe ``tiny.v1``."""
    hub = FakeHub()
    hub.commit("org/tiny", make_safe_base(project.folder / "safe"))
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
    path = project.folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    # Enough rows in the holdout that each draw of it has some of the task and some that the base knew.
    policy = DatasetPolicy.model_validate({"split": {"holdout": 0.3}})
    add_dataset_version(project.store, path, tenant="acme", name=name, policy=policy, actor="ann")


def asked(store: Store, pair: str, mode: str) -> Submission | None:
    found = [each for each in all_submissions(store, "acme") if (each.pair, each.mode) == (pair, mode)]
    assert len(found) <= 1, found
    return found[0] if found else None


def ended(store: Store, pair: str, mode: str = "train") -> SubmissionOutcome:
    """How the pair's submission ended, which nobody but a sensor made; waits for it."""

    def outcome() -> SubmissionOutcome | None:
        submission = asked(store, pair, mode)
        return find_outcome(store, submission) if submission else None

    found = wait_for(outcome, LONG, f"the end of {mode} {pair}")
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
    wait_for(lambda: len(read_line(store, name).records) > before, LONG, f"{job} of {name}")
