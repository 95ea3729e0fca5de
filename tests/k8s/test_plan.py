"""``ft cluster plan``: who gets what, and plans that promise more than there is."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from ft_assets import api
from ft_assets.cli.main import app
from ft_resources.errors import UserError
from tests.k8s.test_manifests import BASE, printed

FLAVOURS = BASE / "flavours.yaml"


@pytest.fixture(autouse=True)
def example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_KUBERNETES", str(BASE / "kubernetes.yaml"))
    monkeypatch.setenv("FT_TENANTS", str(BASE / "tenants.yaml"))


def said(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["cluster", "plan", "--flavours", str(FLAVOURS), *arguments])


def node(flavour: int, *, ready: bool = True, cordoned: bool = False, **less: str) -> dict[str, Any]:
    """A node as the API shows it, with all that the flavour promises except what ``less`` says."""
    found = yaml.safe_load(FLAVOURS.read_text())["flavours"][flavour]
    return {
        "metadata": {"labels": {**found["labels"], "kubernetes.io/os": "linux"}},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {
            "allocatable": {**found["capacity"], **{name.replace("_", "."): value for name, value in less.items()}},
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def test_the_table_has_a_line_for_each_tier_and_kind_of_gpu() -> None:
    table = said().output
    assert [line.split()[:4] for line in table.splitlines()[1:]] == [
        ["8", "H100", flavour, tier]
        for flavour in ("h100-on-demand", "h100-spot")
        for tier in ("premium", "standard", "free", "default")
    ]


def test_the_plan_is_what_the_manifests_say() -> None:
    """Of 8 GPUs premium reserves five eighths, standard and free one each; free has no tenant here, so it lends its."""
    rows = {row["tier"]: row for row in json.loads(said("--json").output) if row["flavour"] == "h100-spot"}
    assert {name: (row["reserved"], row["when_all_ask"], row["most"]) for name, row in rows.items()} == {
        "premium": (5, 7, 8),
        "standard": (1, 1, 4),
        "free": (1, 0, 0),
        "default": (0, 0, 8),
    }
    cohorts = {
        each["metadata"]["name"]: each for each in printed("--flavours", str(FLAVOURS)) if each["kind"] == "Cohort"
    }
    quota = cohorts["ft-tier-premium"]["spec"]["resourceGroups"][0]["flavors"][1]["resources"][2]
    assert quota == {"name": "nvidia.com/gpu", "nominalQuota": "5"}


def test_a_tier_that_preempts_nobody_is_shown_the_range_of_what_it_may_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenants = tmp_path / "tenants.yaml"
    tiers = {"middle": {"cluster": {"reserved": 0.25}}, "low": {"priority": "interactive"}}
    tenants.write_text(yaml.safe_dump({"tiers": tiers, "tenants": {"acme": {"tier": "middle"}, "x": {"tier": "low"}}}))
    monkeypatch.setenv("FT_TENANTS", str(tenants))
    cells = [line for line in said().output.splitlines() if "h100-spot" in line and "middle" in line]
    assert re.search(r"\b2 +2 to \d", cells[0]), cells
    rows = {row["tier"]: row for row in json.loads(said("--json").output) if row["flavour"] == "h100-spot"}
    assert rows["middle"]["first_come"]
    assert not rows["low"]["first_come"]


def test_a_tier_gets_no_further_than_to_what_others_lend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tenants = tmp_path / "tenants.yaml"
    tiers = {"closed": {"reserved": 0.5, "lend": 0.125}, "open": {"reserved": 0.25}}
    named = {name: {"cluster": share} for name, share in tiers.items()}
    tenants.write_text(yaml.safe_dump({"tiers": named, "tenants": {"acme": {"tier": "open"}}}))
    monkeypatch.setenv("FT_TENANTS", str(tenants))
    rows = {row["tier"]: row for row in json.loads(said("--json").output) if row["flavour"] == "h100-spot"}
    assert (rows["open"]["most"], rows["open"]["tenant_most"]) == (2 + 2 + 1, 2 + 2 + 1)


def test_manifests_for_an_older_kueue_are_asked_for_by_its_version() -> None:
    versions = {each["apiVersion"] for each in printed("acme", "--flavours", str(FLAVOURS), "--kueue", "v1beta1")}
    assert versions >= {"v1", "kueue.x-k8s.io/v1beta1"}
    assert "kueue.x-k8s.io/v1beta2" not in versions


@pytest.mark.parametrize("command", ["plan", "manifests"])
def test_a_plan_that_promises_more_than_there_is_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    tenants = tmp_path / "tenants.yaml"
    tenants.write_text("tiers: {gold: {cluster: {reserved: 0.7}}, silver: {cluster: {reserved: 0.5}}}\n")
    monkeypatch.setenv("FT_TENANTS", str(tenants))
    result = CliRunner().invoke(app, ["cluster", command, "--flavours", str(FLAVOURS)])
    assert result.exit_code == 2
    assert "the tiers reserve 120% of the cluster: gold 70%, silver 50%" in " ".join(result.output.split())


def plan_on(tmp_path: Path, *nodes: dict[str, Any]) -> list[api.TierPlan]:
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps({"kind": "List", "items": nodes}))
    return api.cluster_plan(FLAVOURS, nodes=file)


def test_nodes_that_have_what_the_flavours_promise_are_enough(tmp_path: Path) -> None:
    """A GPU node has the labels of the flavour without GPUs too, and counts once."""
    halves = {"cpu": "32000m", "memory": "402653184Ki", "nvidia_com/gpu": "4"}
    found = plan_on(tmp_path, node(0, **halves), node(0, **halves), node(1), node(2))
    assert len(found) == 8


@pytest.mark.parametrize("absent", [{"ready": False}, {"cordoned": True}, {"nvidia_com/gpu": "7"}])
def test_a_capacity_above_what_the_nodes_have_is_refused(tmp_path: Path, absent: dict[str, Any]) -> None:
    with pytest.raises(UserError) as refused:
        plan_on(tmp_path, node(0), node(1, **absent), node(2))
    assert "h100-spot promises" in refused.value.what
    assert refused.value.where.startswith("flavour h100-spot: capacity.")


@pytest.mark.parametrize("enough", [{"cpu": "64.0"}, {"cpu": "64e0"}, {"memory": "1Pi"}, {"memory": "1e12"}])
def test_quantities_of_nodes_are_read_however_they_are_written(tmp_path: Path, enough: dict[str, str]) -> None:
    assert plan_on(tmp_path, node(0), node(1, **enough), node(2))
    with pytest.raises(UserError, match="h100-spot promises"):
        plan_on(tmp_path, node(0), node(1, **dict.fromkeys(enough, "63.5e-1")), node(2))


@pytest.mark.parametrize(
    "text", ["NAME  STATUS\n", "{}", '{"items": ["node"]}', json.dumps({"items": [node(0, cpu="many")]})]
)
def test_a_file_that_lists_no_nodes_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "nodes.json"
    file.write_text(text)
    with pytest.raises(UserError, match="not a list of nodes"):
        api.cluster_plan(FLAVOURS, nodes=file)
