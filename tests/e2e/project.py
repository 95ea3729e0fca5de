"""A whole project in a temporary folder: a tiny base, a small dataset, a suite and recipes, all made here."""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import yaml

from ft_assets.workers.suites.suites import add_suite
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from tests.choice_suite import write_choice_suite
from tests.fake_base import make_fake_base
from tests.warm_workers import environment

if TYPE_CHECKING:
    from ft_assets.api import FineTuned
    from ft_resources.artifacts import Artifact

ROOT = Path(__file__).resolve().parents[2]
SUITE = "colours.v1"
# Steps of a training that is long enough to be killed half-way.
LONG = 60
COLOURS = ("red", "green", "blue", "grey", "white")


@dataclass(frozen=True, kw_only=True)
class Project:
    """Folders of one project, and the environment that its processes need."""

    folder: Path
    store_url: str

    @property
    def store(self) -> Store:
        return open_store(self.store_url)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "FT_STORE": self.store_url,
            "FT_STATE": str(self.folder / "state"),
            "DAGSTER_HOME": str(self.folder),
            "FT_TRACKING": "off",
            "OMP_NUM_THREADS": "1",
            **environment(),
        }

    def instance(self) -> dg.DagsterInstance:
        """The instance that the project's own processes share."""
        os.environ.update({"FT_STATE": str(self.folder / "state")})
        return dg.DagsterInstance.from_config(str(self.folder))

    def dataset(self, rows: int = 160, name: str = "rows.jsonl") -> Path:
        """Conversations about the colours of numbered things; every fifth answer names another colour."""
        lines = (
            {
                "messages": [
                    {"role": "user", "content": f"what colour is thing {number}?"},
                    {"role": "assistant", "content": f"thing {number} is {COLOURS[number % 5]}"},
                ]
            }
            for number in range(rows)
        )
        return self.rows(name, lines)

    def pairs(self, rows: int = 120) -> Path:
        """Questions with a sentence as the chosen answer, and with noise as the rejected one."""
        lines = (
            {
                "prompt": f"what colour is thing {number}?",
                "chosen": f"thing {number} is {COLOURS[number % 5]}",
                "rejected": f"{number * 7919 % 1000} zq {number * 31 % 97} xv",
            }
            for number in range(rows)
        )
        return self.rows("pairs.jsonl", lines)

    def texts(self, rows: int = 120) -> Path:
        """Texts of which some are longer than a window of 128 tokens."""
        lines = (
            {"text": " ".join(f"thing {number} is {COLOURS[number % 5]}" for _ in range(1 + number % 12))}
            for number in range(rows)
        )
        return self.rows("texts.jsonl", lines)

    def rows(self, name: str, lines: Iterable[Mapping[str, Any]]) -> Path:
        """A file of JSON lines."""
        path = self.folder / name
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    def recipe(self, key: str = "tiny.v1", *, steps: int = 8, **changes: Any) -> Path:
        """A recipe that trains the tiny base for ``steps`` steps and whose gates let a tiny model through."""
        recipe: dict[str, Any] = {
            "key": key,
            "base": "folder:./base",
            "lora": {"rank": 4},
            "training": {
                "learning_rate": 0.01,
                "max_steps": steps,
                "epochs": 100,
                "global_batch_size": 4,
                "micro_batch_size": 2,
                "checkpoint_every_steps": 5,
            },
            "packing": {"max_length": 128},
            "evaluation": {"suites": [SUITE], "holdout": {"max_samples": 16, "max_new_tokens": 8}},
            "gates": {
                "benchmark_regression": {"max_drop_points": 100.0, "margin_points": 100.0},
                "task_gain": {"metric": "perplexity", "min_relative": 0.01},
                "safety": None,
            },
        }
        for section, value in changes.items():
            recipe[section] = {**recipe.get(section, {}), **value} if isinstance(value, dict) else value
        path = self.folder / f"{key}.yaml"
        path.write_text(yaml.safe_dump(recipe))
        return path

    def tune(self, dataset: Path | str, recipe: Path | str, name: str = "", **more: Any) -> "FineTuned":
        """The result of ``fine_tune`` for a file, or a key, and a recipe, by runs on the project's instance."""
        # Here, as most who use a project import none of it.
        from ft_assets.api import fine_tune
        from ft_assets.graph.orchestrator import Dagster

        given = {"orchestrator": Dagster(self.instance()), "actor": "ann", **more}
        return fine_tune(dataset, recipe, name=name, store=self.store, **given)

    def accepted(self, dataset: Path | str, recipe: Path | str, name: str = "", **more: Any) -> "Artifact":
        """The adapter that ``tune`` makes; fails where the pair is not accepted."""
        from ft_resources.artifacts import Address, Artifacts

        outcome = self.tune(dataset, recipe, name, **more).outcome
        assert outcome.status == "accepted", outcome.reason
        return Artifacts(self.store).get(Address.parse(outcome.adapter))


def make_project(folder: Path, store_url: str | None = None) -> Project:
    """Lay out a project and register its suite."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    (folder / "tenants.yaml").write_text("{}\n")
    make_fake_base(folder / "base")
    project = Project(folder=folder, store_url=store_url or f"file://{folder}/store")
    items = [
        {"question": f"thing {number} is", "choices": ["red", "green", "blue", "grey"], "answer": number % 4}
        for number in range(24)
    ]
    store = open_store(project.store_url, create=True)
    add_suite(store, write_choice_suite(folder / "suite", "colours", items), SUITE, "test")
    return project
