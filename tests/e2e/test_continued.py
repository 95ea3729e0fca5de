"""An adapter in a stage is continued on new rows, on a real instance."""

import json
from pathlib import Path

import pytest

from ft_assets import api
from ft_assets.api import FineTuned
from ft_assets.control import identity
from ft_assets.records.submissions import SubmissionStatus
from ft_assets.workers.adapters.lineage import lineage, verify_lineage
from ft_resources.artifacts import Address, Artifact, Artifacts
from tests.e2e.project import Project, make_project
from tests.e2e.test_methods import tune

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("project"))


def accepted(project: Project, result: FineTuned) -> Artifact:
    assert result.outcome.status is SubmissionStatus.ACCEPTED, result.outcome.reason
    return Artifacts(project.store).get(Address.parse(result.outcome.adapter))


def losses(checkpoint: Artifact) -> list[float]:
    rows = map(json.loads, checkpoint.read("report/steps.jsonl").decode().splitlines())
    return [row["loss"] for row in rows if "loss" in row]


def test_new_rows_continue_the_adapter_that_stands_in_a_stage(project: Project, tmp_path: Path) -> None:
    first = accepted(project, tune(project, project.dataset(), "acme.things", project.recipe("acme.support.v1")))
    line = first.facts["line"]
    api.promote(line, "staging", reason="good", store=project.store, actor="ann")
    recipe = project.recipe("acme.support.v2", training={"warm_start": f"artifact:{line}@staging"})
    second = accepted(project, tune(project, project.dataset(rows=240, name="more.jsonl"), "acme.things", recipe))

    artifacts, keys = Artifacts(project.store), ("acme.things.v2", "acme.support.v2")
    before = identity.checkpoint(artifacts, "acme.things.v1", "acme.support.v1")
    after = identity.checkpoint(artifacts, *keys)
    assert second.facts["line"] == line
    assert losses(after)[0] < losses(before)[0] - 0.3
    assert after.facts["continued_from"] == str(first.address)

    # The adapter says what it continued, down to the rows that the earlier training read.
    assert f"continued the accepted adapter `{first.address}`" in second.read("README.md").decode()
    assert json.loads(second.read("lineage.json"))["continued_from"] == str(first.address)
    nodes = {node.address for _, _, node in lineage(artifacts, second.address).walk()}
    for key in ("acme.things.v1", "acme.things.v2"):
        assert str(identity.raw_dataset(artifacts, key).address) in nodes
    assert verify_lineage(artifacts, second.address) == []
    report = api.prove_ledger(*keys, store=project.store)
    assert (report.proof.findings, report.earlier) == ([], (before.address,))
    api.promote(str(second.address), "staging", reason="better", store=project.store, actor="ann")
