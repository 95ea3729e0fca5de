"""What a newcomer sees outside a project: no warnings of Dagster's, and no store that a command which reads made up."""

import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest
import typer
import yaml
from pydantic import BaseModel
from typer.testing import CliRunner

from ft_assets.cli.demo import _console, _promote, own_recipe
from ft_assets.cli.main import app
from ft_assets.cli.ui import WORKSPACE
from ft_assets.control import identity
from ft_assets.control.lines.lines import read_line
from ft_assets.control.recipes.load import load_recipe
from ft_assets.control.retention.collect_unreferenced import collect_unreferenced
from ft_assets.control.submissions.submit import submit
from ft_assets.records.submissions import SubmissionStatus, finish
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.settings.environment import LOCATION
from ft_assets.settings.models import ModelsFile
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.retention import Leftovers, Retention
from ft_assets.settings.servers import ServersFile
from ft_assets.settings.tenants import TenantsFile, load_tenants
from ft_resources.artifacts import Artifacts
from ft_resources.errors import MissingInput, UserError
from ft_resources.kubernetes.flavours import FlavoursFile
from ft_resources.kubernetes.settings import KubernetesSettings
from tests.cli.conftest import Ft, publish
from tests.control.lines.promotable import LINE, SERVED, Promotable, passing
from tests.e2e.project import ROOT, Project
from tests.workers.evals.world import World


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with nothing said by the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("DAGSTER_HOME", "FT_STATE", "FT_STORE", "FT_CACHE", "FT_TENANTS"):
        # Set first, so that what a command sets is taken back.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("FT_TRACKING", "off")
    return tmp_path


@pytest.mark.dagster
def test_a_command_in_an_empty_folder_begins_without_a_warning_of_dagsters(
    outside: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [{"prompt": f"what is {number}?", "completion": f"it is {number * 7}"} for number in range(200)]
    (outside / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    added = CliRunner().invoke(app, ["dataset", "add", "rows.jsonl", "--name", "acme.notes"])
    assert added.exit_code == 0, added.output
    assert "dagster.yaml" not in added.output + caplog.text


def test_the_ui_of_a_missing_store_says_so_and_makes_none(outside: Path) -> None:
    refused = CliRunner().invoke(app, ["ui"])
    assert refused.exit_code == 2
    assert "there is no store" in refused.stderr
    assert not (outside / ".ft" / "store").exists()


def test_runs_of_the_command_line_name_the_code_location_of_every_installation() -> None:
    project = yaml.safe_load((ROOT / "workspace.yaml").read_text())
    assert yaml.safe_load(WORKSPACE) == project
    assert project["load_from"][0]["python_module"]["location_name"] == LOCATION
    values = yaml.safe_load((ROOT / "k8s/helm/ft-platform/values.yaml").read_text())
    (deployment,) = values["dagster"]["dagster-user-deployments"]["deployments"]
    assert deployment["name"] == LOCATION


def test_naming_the_same_base_and_data_again_is_the_same_valid_recipe(tmp_path: Path) -> None:
    base, dataset = "hub:org/model@main", "hub:org/tickets@main#train"
    path = own_recipe(base, dataset, tmp_path)
    assert own_recipe(base, dataset, tmp_path) == path
    recipe = load_recipe(path)
    assert recipe.base == base
    assert recipe.gates.task_gain.metric == "perplexity"
    assert own_recipe(base, "", tmp_path) != path


def test_without_another_base_the_shipped_one_is_used(tmp_path: Path) -> None:
    recipe = load_recipe(own_recipe("", "tickets.jsonl", tmp_path))
    assert recipe.base.endswith("demo/base")


@pytest.fixture
def line(project: Project, monkeypatch: pytest.MonkeyPatch) -> Promotable:
    """A line whose base is served and whose adapters' evidence holds."""
    monkeypatch.setattr("ft_assets.control.lines.eligibility.rejection_reason", lambda *_: "")
    served = json.dumps(list(SERVED.served_bases))
    (project.folder / "tenants.yaml").write_text(f"served_bases: {served}\n")
    folder = project.folder / "made"
    folder.mkdir()
    return Promotable.make(World(store=project.store, folder=folder))


def test_the_demo_stops_in_staging_without_a_passed_safety_gate(line: Promotable) -> None:
    adapter = str(line.adapter(verdicts=passing("regression", "task_gain")).address)
    with pytest.raises(UserError, match="production needs a passed safety gate, and it is not among its"):
        _promote(_console(), line.world.store, adapter, load_tenants())
    assert [record.stage for record in read_line(line.world.store, LINE).records] == ["staging"]


def test_what_passed_a_safety_gate_goes_to_production_once_however_often_the_demo_runs(
    line: Promotable, capsys: pytest.CaptureFixture[str]
) -> None:
    adapter = str(line.adapter(verdicts=passing("regression", "task_gain", "safety")).address)
    for _ in range(2):
        assert _promote(_console(), line.world.store, adapter, load_tenants()) == LINE
        assert f"production  {adapter[:32]}" in capsys.readouterr().out
    records = read_line(line.world.store, LINE).records
    assert [(record.stage, record.adapter.address) for record in records] == [
        ("staging", adapter),
        ("production", adapter),
    ]


TENANTS = TenantsFile(retention=Retention(leftovers=Leftovers(unreferenced_days=1)))


def test_a_dry_run_shows_what_would_go_and_removes_nothing(ft: Ft, project: Project, pair: tuple[str, str]) -> None:
    raw = identity.raw_dataset(Artifacts(project.store), pair[0]).address
    late = f"{raw}/late-writer/rows.jsonl"
    project.store.put(late, b"late")
    assert ft("collect", "--dry-run").stdout == ""
    (project.folder / "tenants.yaml").write_text("retention: {leftovers: {attempt_days: 1, unreferenced_days: 1}}\n")
    assert ft("collect").stdout == ""
    root = project.store.local_path(late)
    assert root is not None
    ago = (datetime.now(UTC) - timedelta(days=2)).timestamp()
    os.utime(root, (ago, ago))
    said = f"{raw}: folder late-writer (another writer finished first; 0.0 MB)\n"
    assert ft("collect", "--dry-run").stdout == f"would remove {said}"
    assert project.store.exists(late)
    assert ft("collect").stdout == f"removed {said}"
    assert not project.store.exists(late)


def test_what_a_failed_submission_leads_to_stays_until_the_code_makes_something_else(
    project: Project, pair: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts, now = Artifacts(project.store), datetime.now(UTC)
    asked, _ = submit(
        project.store, load_tenants(), dataset=pair[0], recipe=pair[1], actor="ann", origin="ui", idempotency_key="k"
    )
    finish(project.store, asked, SubmissionStatus.FAILED, reason="no")
    requests = {
        "dataset": lambda: identity.dataset_request(artifacts, pair[0]),
        "base_model": lambda: identity.base_model_request(artifacts, pair[1]),
        "baseline_report": lambda: identity.baseline_report_request(artifacts, pair[1]),
        "token_pack": lambda: identity.token_pack_request(artifacts, *pair),
        "checkpoint": lambda: identity.checkpoint_request(artifacts, *pair),
        "eval_report": lambda: identity.eval_report_request(artifacts, *pair),
    }
    made = {asset: publish(artifacts, request()) for asset, request in requests.items()}
    for days in (0, 2):
        done = collect_unreferenced(artifacts, TENANTS, now=now + timedelta(days=days))
        assert (done.plan.mark, done.addresses) == ((), ())
    old = tuple(str(made[asset].address) for asset in ("eval_report", "checkpoint", "token_pack"))
    with monkeypatch.context() as newer:
        newer.setitem(CODE_VERSIONS, "token_pack", "another")
        assert set(collect_unreferenced(artifacts, TENANTS, now=now).plan.mark) == set(old)
    # Taken back to the earlier code, what that made is led to again.
    assert set(collect_unreferenced(artifacts, TENANTS, now=now + timedelta(days=2)).plan.unmark) == set(old)
    with monkeypatch.context() as newer:
        newer.setitem(CODE_VERSIONS, "token_pack", "another")
        collect_unreferenced(artifacts, TENANTS, now=now)
        assert collect_unreferenced(artifacts, TENANTS, now=now + timedelta(days=2)).addresses == old
        assert identity.dataset(artifacts, pair[0]).address == made["dataset"].address
        assert identity.baseline_report(artifacts, pair[1]).address == made["baseline_report"].address
        with pytest.raises(MissingInput):
            identity.token_pack(artifacts, *pair)


QUESTION = re.compile(r"(What|Who|Whoever|Whose|Whom|Why|How|Which|Where)\b")
FILES = (Recipe, DatasetPolicy, TenantsFile, ServersFile, ModelsFile, KubernetesSettings, FlavoursFile)


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, f"{path} {name}")


def of_commands() -> Iterator[tuple[str, str]]:
    for path, command in commands(typer.main.get_command(app), "ft"):
        yield path, command.help or ""
        for parameter in command.params:
            yield f"{path} {parameter.name}", getattr(parameter, "help", None) or ""


def of_settings(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    schema = model.model_json_schema()
    for name, part in {model.__name__: schema, **schema.get("$defs", {})}.items():
        for field, about in part.get("properties", {}).items():
            yield f"{name}.{field}", about.get("description", "")


@pytest.mark.parametrize(
    "texts",
    [dict(of_commands()), *(dict(of_settings(each)) for each in FILES)],
    ids=["ft", *(m.__name__ for m in FILES)],
)
def test_help_is_there_and_no_question(texts: dict[str, str]) -> None:
    assert {place: text for place, text in texts.items() if not text or QUESTION.match(text)} == {}
