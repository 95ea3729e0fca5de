"""What a newcomer sees outside a project: no warnings of Dagster's, and no store that a command which reads made up."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from ft_assets.cli.main import app
from ft_assets.cli.ui import WORKSPACE
from ft_assets.settings.environment import LOCATION
from tests.e2e.project import ROOT


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
