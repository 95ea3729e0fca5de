"""What a store lacks for honest gates is told with what mends it, and no more than that."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ft_assets import api
from ft_assets.cli.main import app
from ft_assets.control.planning.lacks import Lack, find_lacks
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.records import retired_datasets, retired_recipes
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.settings.shipped_suites import BOOKS, MADE_SAFETY
from ft_assets.workers.suites.catalogue.install import add_own
from ft_assets.workers.suites.suites import add_suite
from ft_resources.artifacts import Artifacts
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from tests.choice_suite import write_choice_suite
from tests.e2e.project import Project, make_project
from tests.fake_base import make_fake_base
from tests.workers.evals.safety_world import write_safety_suite

LARGE = "large.v1"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A store with one small suite, and nothing else."""
    return make_project(tmp_path / "project")


def lacks(store: Store, of: str) -> list[Lack]:
    return [each for each in find_lacks(Artifacts(store)) if each.of == of]


def install(store: Store, folder: Path) -> None:
    """A general suite that is large enough, and a safety suite."""
    items = [{"question": f"{number} is", "choices": ["odd", "even"], "answer": number % 2} for number in range(900)]
    add_suite(store, write_choice_suite(folder / "large", "parity", items), LARGE, "ann")
    add_suite(store, write_safety_suite(folder / "care"), "care.v1", "ann")


def add(project: Project, rows: int = 400) -> str:
    file = project.dataset(rows)
    return str(
        add_dataset_version(project.store, file, tenant="acme", name="colours", policy=DatasetPolicy(), actor="ann").key
    )


def test_a_new_store_lacks_suites_and_those_told_for_a_machine_without_a_network_are_enough(tmp_path: Path) -> None:
    found = find_lacks(Artifacts(open_store(str(tmp_path / "store"), create=True)))
    general = "ft suite install general (MMLU, GSM8K, TruthfulQA); without a network: ft suite install offline"
    safety = "ft suite install safety (AdvBench, HarmBench, XSTest)"
    assert [(each.of, each.remedy) for each in found] == [("store", general), ("store", safety)]
    store = open_store(str(tmp_path / "store"), create=True)
    # What a recipe that names no suites is measured on is no public benchmark.
    add_own(store, [BOOKS, MADE_SAFETY], "ann")
    assert [each.remedy for each in find_lacks(Artifacts(store))] == [general, safety]
    api.install_suites(["offline"], store=store, actor="ann")
    assert [each.remedy for each in find_lacks(Artifacts(store))] == [safety]


def test_a_version_is_told_which_suites_it_was_never_compared_with_until_its_next_version_was(
    project: Project, tmp_path: Path
) -> None:
    key = add(project)
    assert lacks(project.store, key) == []
    install(project.store, tmp_path)
    (found,) = lacks(project.store, key)
    assert "not screened against care.v1, large.v1" in found.what
    named = re.search(r"suites: \[(.*)\]", found.remedy)
    policy = DatasetPolicy.model_validate({"contamination": {"suites": tuple(named[1].split(", "))}})
    file = project.folder / "rows.jsonl"
    mended = add_dataset_version(project.store, file, tenant="acme", name="colours", policy=policy, actor="ann").key
    assert str(mended) == "acme.colours.v2"
    assert [each.of for each in find_lacks(Artifacts(project.store))] == []


def test_a_small_holdout_is_told_to_its_tenant_with_the_gain_that_it_shows(project: Project, tmp_path: Path) -> None:
    install(project.store, tmp_path)
    key = add(project, rows=100)
    (found,) = lacks(project.store, key)
    assert found.what == (
        "Its holdout of 10 rows is too small: a relative gain of 27% over a base at 50% is detected with 80% power."
    )
    assert [each.of for each in api.doctor(tenant="acme", store=project.store)] == [key]
    assert api.doctor(tenant="other", store=project.store) == []


def test_a_recipe_that_asks_for_no_safety_or_is_hard_to_pass_is_told(project: Project, tmp_path: Path) -> None:
    strict = {"benchmark_regression": {"max_drop_points": 2.0, "margin_points": 1.0}}
    # On a base without a template no gate is there by itself.
    make_fake_base(project.folder / "bare", with_template=False)
    early = project.recipe("early.v1", gates=strict, base="folder:./bare", chat_template="plain")
    early.write_text(early.read_text().replace("safety: null", ""))
    register_recipe(project.store, early, actor="ann")
    install(project.store, tmp_path)
    suites = {"suites": [LARGE]}
    register_recipe(project.store, project.recipe("good.v1", gates=strict, evaluation=suites), actor="ann")
    meant = {**strict, "safety": None}
    register_recipe(project.store, project.recipe("meant.v1", gates=meant, evaluation=suites), actor="ann")
    safety, hard = lacks(project.store, "early.v1")
    assert "sets no safety gate" in safety.what
    assert "ft recipe show early.v1 --yaml" in safety.remedy
    assert "regression, colours.v1: 24 items, too few" in hard.what
    assert lacks(project.store, "good.v1") == lacks(project.store, "meant.v1") == []


def test_what_is_retired_lacks_nothing(project: Project, tmp_path: Path) -> None:
    strict = {"benchmark_regression": {"max_drop_points": 2.0, "margin_points": 1.0}}
    register_recipe(project.store, project.recipe("early.v1", gates=strict), actor="ann")
    key = add(project, rows=100)
    install(project.store, tmp_path)
    assert lacks(project.store, "early.v1")
    assert lacks(project.store, key)
    retired_recipes.record(project.store, "early.v1", "retire", actor="ann", note="old")
    retired_datasets.retire(project.store, key, actor="ann", reason="old")
    assert find_lacks(Artifacts(project.store)) == []


def test_suites_that_are_all_too_small_are_as_good_as_none_and_ft_doctor_ends_with_1_until_others_are_there(
    project, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("FT_STORE", project.store_url)
    assert "colours.v1: 24 items, too few (about 873 are needed)" in lacks(project.store, "store")[0].what
    before = CliRunner().invoke(app, ["doctor"])
    assert (before.exit_code, "ft suite install safety" in before.stdout) == (1, True)
    install(project.store, tmp_path)
    assert lacks(project.store, "store") == []
    after = CliRunner().invoke(app, ["doctor"])
    assert (after.exit_code, "Nothing is missing." in after.stdout + after.stderr) == (0, True)
