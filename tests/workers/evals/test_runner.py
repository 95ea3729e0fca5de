"""Suites through lm-eval: the same scores as the stock model, offline, and nothing left changed."""

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from ft_assets.workers.evals.model import load_model
from ft_assets.workers.evals.runner import score_loaded
from ft_resources.errors import BadBase, BadRecipe, UserError
from tests.fake_base import make_fake_base
from tests.workers.evals.results import SUITE
from tests.workers.evals.world import lora_files, suite_files

pytestmark = pytest.mark.training


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_fake_base(tmp_path_factory.mktemp("base"))


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return write(tmp_path / "suite", suite_files(40))


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    return write(tmp_path / "adapter", lora_files(0.5))


def score(base: Path, suite: Path, adapter: Path | None = None, limit: int | None = None, **changes: Any):
    calls: list[tuple[str, int, int]] = []
    settings = {"seed": 3, "limit": limit, "progress": lambda *call: calls.append(call), **changes}
    return score_loaded(load_model(base, adapter), {SUITE: suite}, **settings)[SUITE], calls


def test_scores_are_per_item_and_progress_runs_to_the_end(base: Path, suite: Path) -> None:
    result, calls = score(base, suite)
    assert result.metric == "acc"
    assert result.n == len(result.correct) == len(result.item_ids) == 40
    assert result.item_ids[:2] == ("item-0", "item-1")
    assert set(result.correct) <= {0.0, 1.0}
    assert result.value == sum(result.correct) / 40
    assert calls[-1] == (SUITE, 40, 40)


def test_a_limit_scores_the_first_items_alike_and_a_second_run_the_same(base: Path, suite: Path) -> None:
    whole, _ = score(base, suite)
    part, calls = score(base, suite, limit=10)
    assert part.correct == whole.correct[:10]
    assert {total for _, _, total in calls} == {10}
    assert score(base, suite)[0] == whole


@pytest.mark.parametrize(("tuned", "longest"), [(False, None), (True, None), (False, 40)])
def test_sharing_the_context_gives_the_likelihoods_of_stock_lm_eval(
    base: Path, adapter: Path, tuned: bool, longest: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    from ft_assets.workers.evals.shared_prefix import SharedPrefixLM

    choices = [" red", " a rather long green one", " blue", "  is", " x" * 70]
    # As for a model whose layers see no further: what is longer is left to stock.
    monkeypatch.setattr("ft_assets.workers.evals.shared_prefix.longest_tree", lambda model: longest)
    # Empty contexts, trailing blanks, one too long for the model's context of 256, and many choices for one.
    contexts = ["the thing", "the other thing ", "", "where is it " * 90, "the thing", "x"]
    pairs = [(context, choice) for context in contexts for choice in choices]
    pairs += [("many", f" choice {number}") for number in range(150)]
    requests = [
        Instance(request_type="loglikelihood", doc={}, arguments=pair, idx=number) for number, pair in enumerate(pairs)
    ]
    loaded = load_model(base, adapter if tuned else None)
    ours = SharedPrefixLM(loaded, lambda done, total: None).loglikelihood(requests)
    stock = HFLM(pretrained=loaded.model, tokenizer=loaded.tokenizer, batch_size=4).loglikelihood(requests, True)
    assert [likelihood for likelihood, _ in ours] == pytest.approx([likelihood for likelihood, _ in stock], abs=1e-3)
    assert [greedy for _, greedy in ours] == [greedy for _, greedy in stock]


def test_an_adapter_changes_the_likelihoods_and_can_be_switched_off(base: Path, adapter: Path) -> None:
    import torch

    ids = torch.arange(10, 30)[None]
    plain, tuned = load_model(base), load_model(base, adapter)
    with torch.inference_mode():
        expected = plain.model(input_ids=ids).logits
        assert not torch.allclose(tuned.model(input_ids=ids).logits, expected, atol=1e-3)
        with tuned.as_base():
            assert torch.equal(tuned.model(input_ids=ids).logits, expected)
        beside = tuned.model(input_ids=ids).logits
        assert torch.allclose(tuned.merged().model(input_ids=ids).logits, beside, atol=1e-5)


def test_random_generators_are_left_as_they_were_found(base: Path, suite: Path) -> None:
    import torch

    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    before = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())
    score(base, suite, limit=2)
    assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == before


def test_nothing_is_written_to_the_home_folder_or_beside_the_suite(
    base: Path, suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    before = sorted(suite.iterdir())
    score(base, suite, limit=2)
    assert not (tmp_path / "home").exists()
    assert sorted(suite.iterdir()) == before


def test_items_without_ids_are_named_by_their_place_and_twins_are_refused(base: Path, tmp_path: Path) -> None:
    files = suite_files(4)
    files["items.jsonl"] = files["items.jsonl"].replace(b'"id"', b'"name"')
    assert score(base, write(tmp_path / "nameless", files))[0].item_ids == ("0", "1", "2", "3")
    files = suite_files(4)
    files["items.jsonl"] = files["items.jsonl"].replace(b"item-1", b"item-0")
    with pytest.raises(BadRecipe, match="two items have the same id"):
        score(base, write(tmp_path / "twins", files))


def test_a_suites_templates_cannot_reach_into_python(base: Path, tmp_path: Path) -> None:
    files = suite_files(4)
    files["task.yaml"] = files["task.yaml"].replace(b"{{question}}", b"{{question.__class__.__mro__}}")
    with pytest.raises(Exception, match="unsafe"):
        score(base, write(tmp_path / "evil", files))


def test_a_text_without_end_of_a_stored_suite_ends_at_its_first_item(base: Path, tmp_path: Path) -> None:
    files = suite_files(4)
    name = next(each for each in files if each.endswith(".yaml"))
    task = yaml.safe_load(files[name])
    loops = "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}"
    for field in ("doc_to_text", "doc_to_target", "description"):
        text = loops + str(task.get(field, ""))
        suite = write(tmp_path / field, {**files, name: yaml.safe_dump({**task, field: text}).encode()})
        with pytest.raises(BadRecipe, match="loops without end"):
            score(base, suite)


def test_a_model_whose_weights_are_not_numbers_is_no_score(tmp_path: Path, suite: Path) -> None:
    from safetensors.numpy import load_file, save_file

    broken = make_fake_base(tmp_path / "broken")
    weights = load_file(broken / "model.safetensors")
    weights["model.norm.weight"] = np.full_like(weights["model.norm.weight"], np.nan)
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match="not finite"):
        score(broken, suite)


def test_a_stored_suite_without_usable_answers_is_an_error_and_not_a_score_of_zero(base: Path, suite: Path) -> None:
    # Registration refuses it too; lm-eval itself only warns, and counts every such item as wrong.
    items = suite / "items.jsonl"
    items.write_text(items.read_text().replace('"answer": 0', '"answer": -1'))
    with pytest.raises(BadRecipe, match="the right answer is none of this item's 4 choices") as caught:
        score(base, suite)
    assert caught.value.where.startswith(f"suite {SUITE}, item ")


def test_a_base_that_lacks_weights_is_refused_where_transformers_would_make_some_up(base: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    from ft_assets.settings.recipe.training import TrainingSettings
    from ft_assets.workers.training.model import load_base

    part = shutil.copytree(base, tmp_path / "part")
    weights = load_file(part / "model.safetensors")
    name = next(name for name in sorted(weights) if "q_proj" in name)
    del weights[name]
    save_file(weights, part / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BadBase, match=f"lack 1 of the model's tensors, such as {name}"):
        load_model(part)
    with pytest.raises(BadBase, match="lack 1 of"):
        load_base(part, TrainingSettings(precision="fp32"), full=False)
