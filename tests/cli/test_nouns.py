"""Adding and showing datasets, recipes and suites, and how mistakes look."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import dagster as dg
import pytest

from ft_assets.api import add_dataset
from ft_assets.settings.environment import prepare_environment
from tests.cli.conftest import DATASET, RECIPE, Ft
from tests.e2e.project import SUITE, Project

ENVIRONMENT = ("DAGSTER_HOME", "FT_STATE", "FT_STORE", "FT_CACHE")


def test_adding_the_same_file_twice_gives_the_same_version(
    project: Project, ft: Ft, instance: dg.DagsterInstance
) -> None:
    file = project.dataset()
    first = ft("dataset", "add", file, "--name", "acme.colours")
    second = ft("dataset", "add", file, "--name", "acme.colours")
    (shown,) = instance.fetch_materializations(dg.AssetKey("raw_dataset"), limit=9).records
    assert shown.partition_key == "acme.colours.v1"
    other = ft("dataset", "add", project.dataset(170, "more.jsonl"), "--name", "acme.colours")
    assert (first.stdout, second.stdout, other.stdout) == (
        "acme.colours.v1\n",
        "acme.colours.v1\n",
        "acme.colours.v2\n",
    )
    assert "nothing was added" in second.stderr
    assert "nothing was added" not in first.stderr
    assert set(instance.get_dynamic_partitions("dataset")) == {"acme.colours.v1", "acme.colours.v2"}


def test_a_policy_is_part_of_the_version(project: Project, ft: Ft) -> None:
    file, policy = project.dataset(), project.folder / "dataset.yaml"
    policy.write_text("split: {holdout: 0.2}\n")
    ft("dataset", "add", file, "--name", "acme.colours")
    assert ft("dataset", "add", file, "--name", "acme.colours", "--policy", policy).stdout == "acme.colours.v2\n"
    result = ft("dataset", "add", file, "--name", "acme.colours", "--policy", project.folder / "none.yaml")
    assert result.exit_code == 2
    assert "none.yaml" in result.stderr


def test_a_field_that_is_not_used_is_told_and_thumbs_down_are_refused(project: Project, ft: Ft) -> None:
    def written(**more: object) -> Path:
        rows = [{"prompt": f"What is {number}?", "completion": f"It is {number}.", **more} for number in range(120)]
        file = project.folder / "my rows.jsonl"
        file.write_text("\n".join(map(json.dumps, rows)))
        return file

    told = ft("dataset", "add", written(score=1), "--name", "acme.told")
    assert (told.exit_code, told.stdout) == (0, "acme.told.v1\n")
    assert "Warning: 120 rows have a field 'score' that is not used" in told.stderr
    assert "\nfields: {ignore: [score]}\n" in told.stderr
    refused = ft("dataset", "add", written(label=False), "--name", "acme.told")
    assert refused.exit_code == 2
    assert "where: my rows.jsonl, row 1, label" in refused.stderr
    assert "\nform: unpaired_preference\n" in refused.stderr
    added = add_dataset(written(weight=2), "acme.told", store=project.store)
    assert "'weight' that is not used" in added.warnings[0]


@pytest.mark.e2e
@pytest.mark.usefixtures("forked")
def test_a_version_is_curated_without_a_recipe_and_compared_with_another(
    project: Project, ft: Ft, instance: dg.DagsterInstance
) -> None:
    policy, file = project.folder / "dataset.yaml", project.dataset()
    policy.write_text("duplicates: {near: off}\n")
    lines = file.read_text().splitlines(keepends=True)
    ft("dataset", "add", file, "--name", "acme.colours", "--policy", policy)
    assert "ft dataset curate" in ft("dataset", "diff", DATASET, DATASET).stderr
    curated = ft("dataset", "curate", DATASET)
    assert curated.exit_code == 0, curated.stderr
    assert curated.stdout.startswith(f"{DATASET}: accepted\n  rows: 160 read; train ")
    asset = dg.AssetKey("dataset")
    assert instance.get_materialized_partitions(asset) == {DATASET}
    file.write_text("".join([lines[0].replace("is red", "is pink"), *lines[6:], lines[1].replace("thing 1", "it")]))
    ft("dataset", "add", file, "--name", "acme.colours", "--policy", policy)
    ft("dataset", "curate", "acme.colours.v2")
    found = json.loads(ft("dataset", "diff", DATASET, "acme.colours.v2", "--json").stdout)
    assert (found["same"], found["changed"], found["moved"]) == (154, 1, {})
    assert (sum(found["added"].values()), sum(found["removed"].values())) == (1, 5)
    assert "1 have the same prompt" in ft("dataset", "diff", DATASET, "acme.colours.v2").stdout
    assert "there is no dataset version" in ft("dataset", "curate", "acme.none.v1").stderr


@pytest.mark.e2e
@pytest.mark.usefixtures("forked")
def test_the_rows_nearest_to_a_text_are_shown_with_their_similarity(project: Project, ft: Ft) -> None:
    rows = [{"prompt": f"What is the number {number}?", "completion": f"It is {number}."} for number in range(300, 420)]
    rows.append({"prompt": "Where does the river Rhine end?", "completion": "In the North Sea, behind Rotterdam."})
    file = project.folder / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    ft("dataset", "add", file, "--name", "acme.rivers")
    key, text = "acme.rivers.v1", "where does the river Rhine END – in the North Sea, behind Rotterdam"
    assert "ft dataset curate" in ft("dataset", "near", key, "--text", text).stderr
    ft("dataset", "curate", key)
    header, line = ft("dataset", "near", key, "--text", text).stdout.splitlines()
    assert header.split() == ["similarity", "estimate", "split", "row", "text"]
    assert line.split()[:2] == ["1.000", "1.000"]
    assert line.endswith("Where does the river Rhine end? In the North Sea, behind Ro…")
    (project.folder / "text.txt").write_text(f"{text} and Delft")
    (found,) = json.loads(ft("dataset", "near", key, "--file", project.folder / "text.txt", "--json").stdout)
    assert found["id"].startswith(line.split()[3])
    assert 0.8 < found["similarity"] < 1
    assert "No row is at least 0.9" in ft("dataset", "near", key, "--text", "the Danube", "--threshold", 0.9).stderr
    both = ft("dataset", "near", key)
    assert (both.exit_code, "--text or --file" in both.stderr) == (2, True)


def test_datasets_are_listed_by_tenant_and_for_machines(ft: Ft, pair: tuple[str, str]) -> None:
    assert DATASET in ft("dataset", "list").stdout
    assert [item["key"] for item in json.loads(ft("dataset", "list", "--tenant", "acme", "--json").stdout)] == [DATASET]
    assert json.loads(ft("dataset", "list", "--tenant", "globex", "--json").stdout) == []


def test_a_registered_recipe_is_a_partition_and_registering_it_again_changes_nothing(
    project: Project, ft: Ft, instance: dg.DagsterInstance
) -> None:
    first, second = ft("recipe", "add", project.recipe(RECIPE)), ft("recipe", "add", project.recipe(RECIPE))
    assert first.stdout == second.stdout == f"{RECIPE}\n"
    assert "nothing was added" not in first.stderr
    assert "nothing was added" in second.stderr
    assert instance.get_dynamic_partitions("recipe") == [RECIPE]


def test_a_recipe_says_where_its_settings_are_from(ft: Ft, pair: tuple[str, str]) -> None:
    assert RECIPE in ft("recipe", "list").stdout
    lines = ft("recipe", "show", RECIPE).stdout.splitlines()
    rows = {line.split()[0]: line.strip().split(maxsplit=2)[1:] for line in lines if line.strip()}
    assert rows["lora.rank"] == ["4", "recipe"]
    assert rows["lora.alpha"] == ["8", "auto: twice the rank of 4"]
    assert rows["training.schedule"] == ["cosine", "default"]
    assert rows["lock.digest"][1] == "locked"


def test_a_retired_recipe_is_not_offered_and_can_be_taken_back(ft: Ft, pair: tuple[str, str]) -> None:
    assert ft("recipe", "retire", RECIPE, "--note", " ").exit_code == 2
    assert "retired by" in ft("recipe", "retire", RECIPE, "--note", "too slow").stdout
    assert "retired already by" in ft("recipe", "retire", RECIPE, "--note", "again").stdout
    assert RECIPE not in ft("recipe", "list").stdout
    assert RECIPE in ft("recipe", "list", "--retired").stdout
    # What it says can be read as before.
    assert ft("recipe", "show", RECIPE).exit_code == 0
    refused = ft("submit", DATASET, RECIPE)
    assert refused.exit_code == 2
    assert "too slow" in refused.stderr
    assert f"ft recipe restore {RECIPE}" in refused.stderr
    assert "restored by" in ft("recipe", "restore", RECIPE, "--note", "a newcomer needs it").stdout
    assert RECIPE in ft("recipe", "list").stdout
    assert ft("submit", DATASET, RECIPE).exit_code == 0
    never = ft("recipe", "restore", "tinny.v1", "--note", "x")
    assert "did you mean 'tiny.v1'?" in never.stderr


def test_the_schema_is_json(ft: Ft) -> None:
    assert "training" in json.loads(ft("recipe", "schema").stdout)["properties"]


def test_a_suite_is_registered_once(project: Project, ft: Ft) -> None:
    result = ft("suite", "add", project.folder / "suite", "--key", "other.v1")
    assert result.stdout == "other.v1\n"
    assert "24 items" in result.stderr
    assert {SUITE, "other.v1"} <= set(ft("suite", "list").stdout.split())


@pytest.mark.parametrize("command", ["run", "submit"])
def test_a_misspelt_recipe_key_is_exit_code_2_with_a_hint(ft: Ft, pair: tuple[str, str], command: str) -> None:
    result = ft(command, DATASET, "tinny.v1")
    assert result.exit_code == 2
    assert "did you mean 'tiny.v1'?" in result.stderr
    assert "what to do:" in result.stderr
    assert "Traceback" not in result.output


def test_a_misspelt_field_of_a_recipe_names_field_and_file(project: Project, ft: Ft) -> None:
    path = project.recipe("odd.v1", trainning=8)
    result = ft("recipe", "add", path)
    assert result.exit_code == 2
    assert "did you mean 'training'?" in result.stderr
    assert str(path) in result.stderr


def test_a_file_without_a_name_is_told_to_take_one(project: Project, ft: Ft, pair: tuple[str, str]) -> None:
    result = ft("submit", project.dataset(), RECIPE)
    assert result.exit_code == 2
    assert "--name tenant.name" in result.stderr
    assert ft("dataset", "add", project.dataset(), "--name", "acme").exit_code == 2


def test_state_is_kept_below_the_nearest_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT:
        # Set first, so that what is set below is undone after the test.
        monkeypatch.setenv(name, "x")
        monkeypatch.delenv(name)
    inner = tmp_path / "project" / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "project" / "dagster.yaml").write_text("")
    monkeypatch.chdir(inner)
    prepare_environment()
    assert os.environ["DAGSTER_HOME"] == str(tmp_path / "project")
    assert os.environ["FT_STATE"] == str(tmp_path / "project" / ".ft" / "dagster")
    assert os.environ["FT_STORE"] == str(tmp_path / "project" / ".ft" / "store")
    assert os.environ["FT_CACHE"] == str(tmp_path / "project" / ".ft" / "cache")


@pytest.fixture
def nowhere(tmp_path: Path, ft: Ft, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of a user who has set nothing."""
    with monkeypatch.context() as unset:
        for name in ENVIRONMENT:
            # Set first, so that what a command sets is undone after the test.
            unset.setenv(name, "x")
            unset.delenv(name)
        folder = tmp_path / "nowhere" / "a" / "b"
        folder.mkdir(parents=True)
        unset.chdir(folder)
        yield folder


def test_a_store_is_found_upwards_and_another_is_made_by_init_alone(nowhere: Path, ft: Ft) -> None:
    def unset() -> None:
        for name in ENVIRONMENT:
            os.environ.pop(name, None)

    outer = nowhere.parent
    assert "there is no store here" in ft("status").stderr
    unset()
    os.chdir(outer)
    assert f"created a new store at file://{outer}/.ft/store" in ft("init").stderr
    unset()
    os.chdir(nowhere)
    assert ft("status").exit_code == 0
    assert os.environ["FT_STORE"] == f"{outer}/.ft/store"
    unset()
    assert f"commands in this folder use file://{nowhere}/.ft/store" in ft("init").stderr
    unset()
    ft("status")
    assert os.environ["FT_STORE"] == f"{nowhere}/.ft/store"


def test_a_store_of_somebody_else_is_not_found(nowhere: Path, ft: Ft, monkeypatch: pytest.MonkeyPatch) -> None:
    (nowhere.parent / ".ft" / "store").mkdir(parents=True)
    mine = os.getuid()
    monkeypatch.setattr("ft_assets.settings.environment.os.getuid", lambda: mine + 1)
    assert f"FT_STORE=file://{nowhere}/.ft/store" in ft("status").stderr


def test_the_version_is_said(ft: Ft) -> None:
    assert ft("--version").stdout == f"ft {version('ft-platform')}\n"


def test_help_begins_with_the_five_commands_that_a_newcomer_needs(ft: Ft) -> None:
    lines = ft("--help").stdout.splitlines()
    panels = [number for number, line in enumerate(lines) if line.startswith("╭─")]
    first = lines[panels[1] : panels[2]]
    assert "First" in first[0]
    named = [line.split()[1] for line in first if line.startswith("│ ") and line[2] != " "]
    assert named == ["demo", "run", "chat", "status", "serve"]
    assert not [line for line in lines if "─ Commands ─" in line]


def test_a_command_on_a_store_that_is_not_mounted_refuses_and_creates_nothing(
    project: Project, ft: Ft, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount = project.folder / "mount"
    mount.mkdir()
    for folder in (mount, mount / "store"):
        monkeypatch.setenv("FT_STORE", str(folder))
        for command in (["status"], ["dataset", "list"], ["lines"], ["submit", DATASET, RECIPE]):
            result = ft(*command)
            assert result.exit_code == 2, command
            assert "there is no store here" in result.stderr
            assert "mounted" in result.stderr
    assert list(mount.iterdir()) == []


def test_the_creation_of_a_store_is_said_once(project: Project, ft: Ft, monkeypatch: pytest.MonkeyPatch) -> None:
    store = project.folder / "new"
    monkeypatch.setenv("FT_STORE", str(store))
    add = ("dataset", "add", project.dataset(), "--name", "acme.colours")
    assert f"created a new store at file://{store}" in ft(*add).stderr
    assert "created" not in ft(*add).stderr
    assert ft("dataset", "list").exit_code == 0


def test_a_store_that_cannot_be_created_is_told_as_an_error(
    project: Project, ft: Ft, monkeypatch: pytest.MonkeyPatch
) -> None:
    # These ended with a traceback.
    for variable in ("FT_STORE", "FT_STATE"):
        monkeypatch.setenv(variable, "/proc/no/such")
        result = ft("dataset", "add", project.dataset(), "--name", "acme.colours")
        assert result.exit_code == 2
        assert "/proc/no/such" in result.stderr
        assert "what to do: " in result.stderr


def test_an_unknown_variable_is_named_with_the_one_that_was_meant(ft: Ft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_TENNANTS", "limits.yaml")
    # What settings name themselves, and what Kubernetes sets for a service called ft-postgres.
    for name in ("FT_WEBHOOK_ACME", "FT_JUDGE_KEY_A", "FT_POSTGRES_SERVICE_HOST", "FT_POSTGRES_PORT_5432_TCP"):
        monkeypatch.setenv(name, "x")
    result = ft("status")
    assert result.exit_code == 0
    assert result.stderr.count("warning: ") == 1
    assert "FT_TENNANTS is not known and has no effect; did you mean FT_TENANTS?" in result.stderr


def test_a_tenants_file_that_is_named_and_not_there_is_an_error_of_the_command(
    project: Project, ft: Ft, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FT_TENANTS", str(project.folder / "tennants.yaml"))
    result = ft("usage", "acme")
    assert result.exit_code == 2
    assert "the tenants file cannot be read" in result.stderr


@pytest.mark.subprocess
def test_the_python_function_finds_the_projects_state_as_the_command_does(tmp_path: Path) -> None:
    # Without DAGSTER_HOME it failed in Dagster's own words, after the dataset was added.
    (tmp_path / "dagster.yaml").write_text("")
    unset = {name: value for name, value in os.environ.items() if name not in ENVIRONMENT}
    script = "from ft_assets.api import fine_tune; fine_tune('acme.tickets.v1', 'support.v1')"
    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**unset, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
    )
    assert f"{tmp_path}/.ft/store: there is no store here" in result.stderr
    assert "DAGSTER_HOME" not in result.stderr


def test_help_imports_neither_dagster_nor_mlflow_nor_pydantic() -> None:
    script = (
        "import sys, ft_assets.cli.main\n"
        "bad = {'dagster', 'mlflow', 'pydantic', 'torch', 'pyarrow', 'obstore', 'rich.table'} & set(sys.modules)\n"
        "raise SystemExit(', '.join(bad) or 0)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


HEAVY = "dagster mlflow torch transformers numpy pyarrow numba sqlalchemy jinja2 kubernetes huggingface_hub psutil ssl"


def test_what_only_reads_records_imports_nothing_heavy(tmp_path: Path) -> None:
    # Half a second of every `ft status` went into templates, launchers and suites that it does not use.
    script = (
        "import sys\n"
        "from ft_assets.cli.main import app\n"
        "for command in ('status', 'dataset list', 'recipe list', 'lines'):\n"
        "    app(command.split(), standalone_mode=False)\n"
        f"raise SystemExit(', '.join(set({HEAVY.split()!r}) & set(sys.modules)) or 0)"
    )
    folders = dict.fromkeys(("FT_STATE", "FT_CACHE", "DAGSTER_HOME"), str(tmp_path))
    store = Path(__file__).parents[1] / "fixtures" / "store_of_demo"
    environment = {**os.environ, **folders, "FT_STORE": str(store)}
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    assert {"demo.docs.v1", "docs-qa.v1"} <= set(result.stdout.split())
