"""What the fine-tunes of a cluster are made of: the demo's base, suite and rows, and a recipe for each of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from ft_assets.cli.demo import FOLDER, SUITE
from ft_assets.control.registry.adding import add_dataset
from ft_assets.control.registry.register import register_recipe
from ft_assets.demo.dataset import build_demo_dataset
from ft_assets.settings.tenants import NO_TENANTS
from ft_assets.workers.suites.suites import add_suite
from ft_resources.store_marker import open_store
from tests.e2e.project import ROOT, Project

TENANT = "demo"
_ROWS, _STEPS = 600, 12


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One dataset version, and the recipes that it is to be trained with."""

    dataset: str
    recipes: Sequence[str]


def ask(folder: Path, count: int) -> tuple[Project, Asked]:
    """A project with everything that ``count`` fine-tunes need, none of which has begun."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    project = Project(folder=folder, store_url=f"file://{folder}/store")
    # Dagster's state is made by one process before many open it.
    project.instance().dispose()
    open_store(project.store_url, create=True)
    add_suite(project.store, FOLDER / "suites" / "book_cloze", SUITE, "benchmark")
    rows = folder / "docs.jsonl"
    build_demo_dataset(rows)
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:_ROWS]))
    version = add_dataset(project.store, NO_TENANTS, rows, f"{TENANT}.docs", FOLDER / "dataset.yaml", actor="benchmark")
    recipes = [_recipe(project, number) for number in range(count)]
    return project, Asked(dataset=str(version.key), recipes=recipes)


def _recipe(project: Project, number: int) -> str:
    """Register the demo's recipe, small, with a learning rate of its own, so that no two trainings are the same."""
    key = f"{TENANT}.tune-{number + 1}.v1"
    recipe = yaml.safe_load((FOLDER / "recipe.yaml").read_text())
    recipe |= {"key": key, "base": f"folder:{FOLDER / 'base'}"}
    recipe["training"] |= {"max_steps": _STEPS, "learning_rate": round(1e-3 + 1e-4 * number, 6)}
    holdout = {"max_samples": 24, "max_new_tokens": 8}
    recipe["evaluation"] |= {"suite_limit": 16, "holdout": holdout}
    # A few steps and items prove little about a model; that it got better at all is asked for.
    recipe["gates"] = {
        "benchmark_regression": {"max_drop_points": 100.0, "margin_points": 100.0},
        "task_gain": {"metric": "perplexity", "min_relative": 0.01},
    }
    path = project.folder / f"{key}.yaml"
    path.write_text(yaml.safe_dump(recipe))
    register_recipe(project.store, path, actor="benchmark")
    return key
