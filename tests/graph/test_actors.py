"""Whom records name as who acted, for each thing that is launched on Dagster's pages: nobody that a tag names."""

import json
from collections.abc import Callable

import dagster as dg
import pytest

from ft_assets.api import watch_dataset
from ft_assets.control.lines.lines import read_line
from ft_assets.graph.jobs.adapters import promote_job, rollback_job
from ft_assets.graph.jobs.pauses import pause_job, resume_job
from ft_assets.graph.jobs.sources import pull_dataset_job
from ft_assets.graph.jobs.submissions import fine_tune
from ft_assets.records.names import DATASET as DATASET_NAME
from ft_assets.records.pauses import read_pauses
from ft_assets.records.sources import last_pull
from ft_assets.records.submissions import find_submission
from ft_assets.settings import tags
from ft_assets.settings.tenants import load_tenants
from ft_resources.dagster_resources import LauncherResource, StoreResource
from tests.cli.conftest import DATASET, RECIPE
from tests.cli.conftest import pair as pair
from tests.cli.conftest import project as project
from tests.cli.test_lines import adapters as adapters
from tests.control.lines.promotable import LINE
from tests.e2e.project import Project

pytestmark = pytest.mark.dagster
CLAIMED = {"user": "the-ceo", tags.ACTOR: "the-ceo"}
OPERATOR = "ops (in Dagster)"
Launch = Callable[..., object]


@pytest.fixture
def launch(project: Project, monkeypatch: pytest.MonkeyPatch) -> Launch:
    """Runs a job of one op with tags that claim to be somebody else; what the op gives."""
    monkeypatch.setenv("FT_ACTOR", "ops")

    def run(job: dg.JobDefinition, op: str, **config: object) -> object:
        resources = {"store": StoreResource(url=project.store_url), "launcher": LauncherResource()}
        wanted = {name: resources[name] for name in job.required_resource_keys if name in resources}
        done = job.execute_in_process({"ops": {op: {"config": config}}}, resources=wanted, tags=CLAIMED)
        return done.output_for_node(op)

    return run


def test_a_tag_of_a_run_names_nobody_who_moves_an_adapter(adapters, launch, project) -> None:
    for adapter in adapters:
        launch(promote_job, "record_promotion", target=str(adapter.address), stage="staging", reason="try it")
    launch(rollback_job, "record_rollback", line=LINE, stage="staging", reason="no")
    records = read_line(project.store, LINE).records
    assert [(each.actor, each.kind) for each in records] == [
        (OPERATOR, "promotion"),
        (OPERATOR, "promotion"),
        (OPERATOR, "rollback"),
    ]


def test_a_tag_of_a_run_names_nobody_who_asks_for_a_fine_tune_or_pauses_it(pair, launch, project) -> None:
    made = str(launch(fine_tune, "record_submission", dataset=DATASET, recipe=RECIPE))
    submission = find_submission(project.store, "acme", made)
    assert submission.actor == OPERATOR
    for job, op in ((pause_job, "pause_submission"), (resume_job, "resume_submission")):
        launch(job, op, submission=made)
        last = read_pauses(project.store, submission).last
        assert (last.actor, op.startswith(last.kind.removesuffix("d"))) == (OPERATOR, True)


def test_a_tag_of_a_run_names_nobody_who_pulls_a_dataset_and_the_sensor_is_named_for_what_it_noticed(
    launch: Launch, project: Project
) -> None:
    lake, policy = project.folder / "lake" / "tickets", project.folder / "dataset.yaml"
    lake.mkdir(parents=True)
    connections = {"lake": {"kind": "files", "url": f"file://{lake.parent}"}}
    (project.folder / "tenants.yaml").write_text(json.dumps({"tenants": {"acme": {"connections": connections}}}))
    policy.write_text("source: {files: {connection: lake, path: tickets}}\n")
    rows = project.dataset(rows=300).read_text().splitlines(keepends=True)
    actors = []
    for version, seen in ((1, ""), (2, "4 files")):
        (lake / f"{version}.jsonl").write_text("".join(rows[version * 100 - 100 : version * 100]))
        watch, _, _ = watch_dataset("acme.tickets", policy, store=project.store, tenants=load_tenants(), actor="ann")
        made = str(launch(pull_dataset_job, "pull_rows", dataset="acme.tickets", seen=seen))
        pulled, added = last_pull(project.store, watch), DATASET_NAME.find(project.store, made)
        actors.append((pulled.version, pulled.actor, added["actor"]))
    assert actors == [
        ("acme.tickets.v1", OPERATOR, OPERATOR),
        ("acme.tickets.v2", "sources_sensor", "sources_sensor"),
    ]
