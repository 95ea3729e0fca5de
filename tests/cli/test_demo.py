import json
from pathlib import Path

import pytest

from ft_assets.cli.demo import _console, _promote, own_recipe
from ft_assets.control.lines.lines import read_line
from ft_assets.control.recipes.load import load_recipe
from tests.control.lines.promotable import LINE, SERVED, Promotable, passing
from tests.e2e.project import Project
from tests.workers.evals.world import World


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


def test_without_a_safety_gate_the_demo_ends_in_staging_and_says_why_not_in_production(
    line: Promotable, capsys: pytest.CaptureFixture[str]
) -> None:
    adapter = str(line.adapter(verdicts=passing("regression", "task_gain")).address)
    # Running the demo again moves nothing.
    for _ in range(2):
        _promote(_console(), line.world.store, adapter)
        said = capsys.readouterr()
        assert f"staging     {adapter[:32]}" in said.out
        assert "production  refused: production needs a passed safety gate, and it is not among its" in said.out
        assert "see docs/how-to/safety.md" in said.err
    state = read_line(line.world.store, LINE)
    assert [record.stage for record in state.records] == ["staging"]


def test_only_what_truly_passed_a_safety_gate_would_go_to_production(
    line: Promotable, capsys: pytest.CaptureFixture[str]
) -> None:
    adapter = str(line.adapter(verdicts=passing("regression", "task_gain", "safety")).address)
    _promote(_console(), line.world.store, adapter)
    assert "production  the same" in capsys.readouterr().out
    production = read_line(line.world.store, LINE).at("production")
    assert production is not None
    assert production.adapter.address == adapter
