from pathlib import Path

from ft_assets.cli.demo import own_recipe
from ft_assets.recipes.load import load_recipe


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
