"""What a recipe's judges must be, told when it is registered or submitted, and not after hours of training."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ft_assets.control.identity import raw_dataset
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.registry.adding import add_dataset
from ft_assets.control.registry.check_judges import require_judges_of_pair
from ft_assets.control.registry.register import RegisteredRecipe
from ft_assets.control.submissions.submit import check_gates
from ft_assets.settings.tenants import load_tenants
from ft_assets.workers.suites.classifiers import add_classifier
from ft_assets.workers.suites.suites import add_suite
from ft_resources.artifacts import Artifacts
from ft_resources.errors import BadRecipe, UserError
from ft_resources.store import Store
from tests.control.registry import conftest as writing
from tests.control.registry.conftest import SUITE
from tests.fake_base import make_fake_base
from tests.workers.evals.safety_world import write_safety_suite
from tests.workers.evals.test_golden import write_golden

Write = Callable[..., Path]
QWEN = {"endpoint": "https://judge.example.com/v1", "model": "Qwen/Qwen3-32B"}


@pytest.fixture(autouse=True)
def tenants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tenants.yaml"
    hosts = [{"host": "judge.example.com", "keys": ["FT_JUDGE_KEY_A"]}]
    path.write_text(yaml.safe_dump({"judge_hosts": hosts, "tenants": {"shy": {"judge_hosts": []}}}))
    monkeypatch.setenv("FT_TENANTS", str(path))
    return path


def register(store: Store, path: Path) -> RegisteredRecipe:
    return writing.register(store, path, tenants=load_tenants())


def refused(store: Store, path: Path) -> str:
    return writing.refused(store, path, tenants=load_tenants())


def evaluation(*models: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"suites": [SUITE], **({"judge": {"models": list(models)}} if models else {}), **changes}


def test_a_judge_gate_without_a_judge_is_refused(store: Store, write_recipe: Write) -> None:
    assert "evaluation.judge is not set" in refused(store, write_recipe(gates={"judge": {}}))
    register(store, write_recipe(gates={"judge": {}}, evaluation=evaluation(QWEN)))
    register(store, write_recipe(key="plain.v1"))
    with pytest.raises(UserError, match="has no judge"):
        check_gates(store, get_recipe(store, "plain.v1").recipe, ["judge.min_win_rate > 0.5"])
    check_gates(store, get_recipe(store, "tiny.v1").recipe, ["judge.min_win_rate > 0.6", "judge.max_no_verdict < 0.05"])


def test_a_recipe_without_judges_says_nothing_of_them(store: Store, write_recipe: Write) -> None:
    """So that its digest is what it was before there were any."""
    register(store, write_recipe())
    kept = store.get_json("names/recipe/tiny.v1.json")["recipe"]["evaluation"]
    assert not {"judge", "refusal_classifier"} & kept.keys()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({**QWEN, "endpoint": "https://evil.example.com/v1"}, "evil.example.com may not receive"),
        ({**QWEN, "endpoint": "http://judge.example.com/v1"}, "uses http"),
        ({**QWEN, "key": "FT_JUDGE_KEY_B"}, "FT_JUDGE_KEY_B may not be sent to judge.example.com"),
        ({**QWEN, "key": "AWS_SECRET_ACCESS_KEY"}, "key"),
        ({**QWEN, "model": "meta-llama/Llama-3.3-70B"}, "is from the base's family (Llama)"),
        ({"model": "gpt-4o"}, "should be recipe:KEY"),
        ({"model": "recipe:other.qwen.v1"}, "belongs to another tenant"),
        ({"model": "recipe:qwen.v1"}, "there is no recipe 'qwen.v1'"),
        ({"model": f"folder:sha256:{'0' * 64}"}, "no folder with digest"),
    ],
)
def test_judges_that_could_not_judge_are_refused_with_a_sentence(store, write_recipe, model, words) -> None:
    assert words in refused(store, write_recipe(evaluation=evaluation(model)))


def test_texts_have_no_answers_to_judge(store: Store, write_recipe: Write) -> None:
    path = write_recipe(
        method="cpt",
        gates={"task_gain": {"metric": "perplexity"}},
        packing={"overlong": "split"},
        evaluation=evaluation(QWEN),
    )
    assert "texts have no answers" in refused(store, path)


def test_a_local_judge_is_the_base_of_a_recipe(store: Store, write_recipe: Write) -> None:
    register(store, write_recipe(key="judge.v1"))
    model = {"model": "recipe:judge.v1", "allow_same_family": True}
    register(store, write_recipe(evaluation=evaluation(model)))
    assert get_recipe(store, "tiny.v1").recipe.evaluation.judge is not None


def test_a_judge_may_not_see_a_tenants_rows_nor_be_of_the_family_that_wrote_them(store, write_recipe, tmp_path) -> None:
    recipe = register(store, write_recipe(evaluation=evaluation(QWEN))).key
    rows = tmp_path / "rows.jsonl"
    lines = (json.dumps({"instruction": f"What is {n} and one?", "output": str(n + 1)}) for n in range(120))
    rows.write_text("\n".join(lines))
    artifacts, wanted = Artifacts(store), get_recipe(store, recipe).recipe

    def check(name: str, policy: str) -> None:
        (tmp_path / "dataset.yaml").write_text(policy)
        added = add_dataset(store, load_tenants(), [rows], name=name, policy=tmp_path / "dataset.yaml", actor="ann")
        require_judges_of_pair(store, load_tenants(), wanted, raw_dataset(artifacts, str(added.key)))

    check("acme.people", "")
    check("acme.claude", "generated_by: claude-3-opus")
    with pytest.raises(BadRecipe, match=r"family of qwen2\.5-72b, which generated the dataset's answers"):
        check("acme.qwen", "generated_by: qwen2.5-72b")
    with pytest.raises(UserError, match="may not receive this tenant's rows"):
        check("shy.people", "")


def test_a_refusal_classifier_needs_a_safety_suite_and_labels_that_exist(store, write_recipe, tmp_path) -> None:
    folder = make_fake_base(tmp_path / "classifier")
    config = json.loads((folder / "config.json").read_bytes())
    config |= {"architectures": ["LlamaForSequenceClassification"], "id2label": {"0": "ok", "1": "toxic"}}
    (folder / "config.json").write_text(json.dumps(config))
    add_classifier(store, str(folder), "refusal.v1", actor="ann")
    add_suite(store, write_safety_suite(tmp_path / "care"), "care.v1", "ann")

    def recipe(*suites: str, **classifier: Any) -> Path:
        # Without null the recipe would be given the suite: its base has a chat template.
        return write_recipe(
            evaluation={"suites": [SUITE, *suites], "refusal_classifier": classifier}, gates={"safety": None}
        )

    good = {"classifier": "refusal.v1", "labels": ["toxic"]}
    assert "evaluation.suites names none" in refused(store, recipe(**good))
    assert "no label 'toxi'; did you mean 'toxic'?" in refused(store, recipe("care.v1", **{**good, "labels": ["toxi"]}))
    unknown = recipe("care.v1", **{**good, "classifier": "other.v1"})
    assert "there is no classifier 'other.v1'" in refused(store, unknown)
    assert "either a classifier or a model" in refused(store, recipe("care.v1", **good, model="recipe:judge.v1"))
    assert "labels: required for a classifier" in refused(store, recipe("care.v1", classifier="refusal.v1"))
    register(store, recipe("care.v1", **good))


def test_a_judge_compares_answers_to_golden_prompts_that_both_are_asked(store, write_recipe, tmp_path) -> None:
    add_suite(store, write_golden(tmp_path / "ours", {"prompt": "Why?"}), "ours.v1", "ann")

    def recipe(prompts: str, *suites: str, **changes: Any) -> Path:
        judge = {"models": [QWEN], "prompts": prompts}
        return write_recipe(evaluation={"suites": [SUITE, *suites], "judge": judge}, **changes)

    assert "evaluation.suites does not name it, so there are no answers" in refused(store, recipe("ours.v1"))
    assert f"{SUITE} is of kind multiple_choice" in refused(store, recipe(SUITE))
    assert "evaluation.judge.prompts" in refused(store, recipe("golden", "ours.v1"))
    texts: dict[str, Any] = {"key": "texts.v1", "method": "cpt", "gates": {"task_gain": {"metric": "perplexity"}}}
    assert "texts have no answers" in refused(store, recipe("holdout", "ours.v1", **texts))
    done = register(store, recipe("ours.v1", "ours.v1", **texts))
    assert done.created
