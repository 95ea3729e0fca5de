"""Judges and classifiers are part of a report's identity, which is unchanged without them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from ft_assets.control import identity
from ft_assets.control.registry.register import register_recipe
from ft_assets.settings.tenants import load_tenants
from ft_assets.workers.evals.preferences.prompt import PROMPT
from ft_assets.workers.suites.classifiers import add_classifier
from ft_assets.workers.suites.suites import add_suite
from ft_resources.work import WorkRequest
from tests.control.lines.test_graph import DATASET, project  # noqa: F401
from tests.fake_base import make_fake_base
from tests.made import leave
from tests.workers.datasets.screening.conftest import make_classifier
from tests.workers.evals.results import SUITE
from tests.workers.evals.safety_world import write_safety_suite
from tests.workers.evals.world import World

ENDPOINT = {"endpoint": "https://judge.example.com/v1", "model": "Qwen/Qwen3-32B"}


@pytest.fixture
def judged(project: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:  # noqa: F811
    """A store in which recipes with judges may be registered on the base and checkpoint of ``tiny.v1``."""
    (tmp_path / "tenants.yaml").write_text(yaml.safe_dump({"judge_hosts": [{"host": "judge.example.com"}]}))
    monkeypatch.setenv("FT_TENANTS", str(tmp_path / "tenants.yaml"))
    add_suite(project.store, write_safety_suite(project.folder / "care"), "care.v1", "test")
    return project


def request(world: World, key: str, *suites: str, **evaluation: Any) -> WorkRequest:
    """The report of a recipe that differs from ``tiny.v1`` in its evaluation alone."""
    recipe = {"key": key, "base": "folder:./base", "training": {"seed": 0}}
    path = world.folder / f"{key}.yaml"
    path.write_text(yaml.safe_dump({**recipe, "evaluation": {"suites": [SUITE, *suites], **evaluation}}))
    register_recipe(world.store, path, actor="test", tenants=load_tenants())
    baseline = identity.baseline_report_request(world.artifacts, key)
    if world.artifacts.find(baseline.address) is None:
        leave(world.artifacts, baseline, {"report.json": key.encode()})
    return identity.eval_report_request(world.artifacts, DATASET, key, load_tenants())


def test_a_report_without_judges_is_what_it_was_before_there_were_any(judged: World) -> None:
    plain = identity.eval_report_request(judged.artifacts, DATASET, "tiny.v1")
    assert "judge_hosts" not in plain.runtime
    assert not any("judge" in name or "classifier" in name for name in (*plain.inputs, *plain.params))
    assert not {"judge", "refusal_classifier"} & plain.params["evaluation"].keys()


def test_an_endpoints_model_is_part_of_the_report_and_the_hosts_that_may_be_asked_are_not(
    judged: World, tmp_path: Path
) -> None:
    one = request(judged, "one.v1", judge={"models": [ENDPOINT]})
    assert one.params["judge_prompt"] == PROMPT
    assert one.runtime["judge_hosts"] == [{"host": "judge.example.com", "keys": [], "private": False}]
    other = request(judged, "other.v1", judge={"models": [{**ENDPOINT, "model": "mistral-large"}]})
    assert one.address != other.address
    (tmp_path / "tenants.yaml").write_text(yaml.safe_dump({"judge_hosts": []}))
    today = identity.eval_report_request(judged.artifacts, DATASET, "one.v1")
    assert today.address == one.address
    assert today.runtime["judge_hosts"] == []


def test_a_local_judges_weights_are_part_of_the_report(judged: World) -> None:
    make_fake_base(judged.folder / "judge", seed=3)
    path = judged.folder / "judge.yaml"
    recipe = {"key": "judge.v1", "base": "folder:./judge", "evaluation": {"suites": [SUITE]}}
    path.write_text(yaml.safe_dump(recipe))
    lock = register_recipe(judged.store, path, actor="test").lock
    files = {each.name: each.read_bytes() for each in (judged.folder / "judge").iterdir()}
    asked = identity.base_model_request(judged.artifacts, "judge.v1")
    mirrored = leave(judged.artifacts, asked, files, {"source": lock.source})
    by_recipe = request(judged, "a.v1", judge={"models": [{"model": "recipe:judge.v1", "allow_same_family": True}]})
    assert by_recipe.inputs["judge:0"] == mirrored.ref
    assert "judge_hosts" not in by_recipe.runtime
    named = {"model": f"folder:sha256:{lock.digest}", "allow_same_family": True}
    both = request(judged, "b.v1", judge={"models": [ENDPOINT, named]})
    assert both.inputs["judge:1"].digest == lock.digest
    assert "judge:0" not in both.inputs


@pytest.mark.training
def test_a_classifiers_weights_are_part_of_the_report_and_not_of_the_baseline(judged: World) -> None:
    key = add_classifier(judged.store, str(make_classifier(judged.folder / "c")), "refusal.v1", actor="test")
    plain = request(judged, "plain.v1", "care.v1")
    told = request(judged, "told.v1", "care.v1", refusal_classifier={"classifier": "refusal.v1", "labels": ["toxic"]})
    assert told.inputs["refusal_classifier"] == key.ref
    assert told.inputs["baseline"] == plain.inputs["baseline"]
    assert told.address != plain.address
    assert "refusal_question" not in told.params
