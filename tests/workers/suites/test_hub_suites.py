"""Suites whose data are on the Hub, and those with long answers: as lm-eval's own tasks have them."""

import re
from pathlib import Path
from typing import Any

import pytest

from ft_assets import api
from ft_assets.workers.suites.registered import get_suite
from ft_assets.workers.suites.suites import asked_items, read_task, safety_prompts
from ft_resources.errors import BadBase, BadRecipe, UserError
from ft_resources.store import Store
from tests.fake_base import make_fake_base
from tests.fake_hub import FakeHub
from tests.workers.suites.beside_lm_eval import are_equal, ours, stock
from tests.workers.suites.conftest import folder_of
from tests.workers.suites.hub_rows import OTHERS, STOCK, commit_of, install_at, installed, rows_of, stock_rows
from tests.workers.suites.written import mmlu_pro, programs

SEEDS = (1, pytest.param(2, marks=pytest.mark.long))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from ft_assets.workers.evals.model import load_model

    return load_model(make_fake_base(tmp_path_factory.mktemp("base")))


@pytest.mark.training
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", STOCK)
def test_it_is_asked_and_scored_as_by_lm_eval(store: Store, loaded: Any, tmp_path: Path, name: str, seed: int) -> None:
    rows, (task, metric) = rows_of(name, seed), STOCK[name]
    if name.startswith("arithmetic"):
        rows = [as_greedy(loaded, row) if number % 2 else row for number, row in enumerate(rows)]
    theirs = stock(loaded, task, stock_rows(name, rows), tmp_path / "stock")
    suite = installed(store, name, rows, tmp_path)
    assert are_equal(loaded, suite, theirs, metric) == [True] * len(rows)
    if name.startswith("arithmetic"):
        assert {each["acc"] for each in theirs} == {0, 1}


def as_greedy(loaded: Any, row: dict[str, Any]) -> dict[str, Any]:
    """``row`` with what the model would write, if that is a character."""
    import torch

    asked = row["context"].strip().replace("\n\n", "\n").replace("Q:", "Question:").replace("A:", "Answer:")
    with torch.inference_mode():
        logits = loaded.model(torch.tensor([loaded.tokenizer(asked)["input_ids"]])).logits[0, -1]
    printable = [token for token in range(len(logits)) if re.fullmatch(r"[!-~]", loaded.tokenizer.decode(token))]
    best = int(logits.argmax())
    return {**row, "completion": loaded.tokenizer.decode(best if best in printable else printable[0])}


@pytest.mark.training
@pytest.mark.parametrize("seed", SEEDS)
def test_bbqs_bias_is_lm_evals(store: Store, loaded: Any, tmp_path: Path, seed: int) -> None:
    from lm_eval.tasks.bbq.utils import agg_amb_bias_scores, agg_disamb_bias_scores

    rows = rows_of("bbq", seed, 60)
    theirs = stock(loaded, STOCK["bbq"][0], stock_rows("bbq", rows), tmp_path / "stock")
    score, _ = ours(loaded, installed(store, "bbq", rows, tmp_path))
    clear, wrong = score.also["bias context_condition disambig"], 1 - score.also["context_condition ambig"]
    assert clear == pytest.approx(agg_disamb_bias_scores([each["disamb_bias_score"] for each in theirs]))
    ambiguous = wrong * score.also["bias context_condition ambig"]
    assert ambiguous == pytest.approx(agg_amb_bias_scores([each["amb_bias_score"] for each in theirs]))
    # Not all is of one kind.
    assert {each["disamb_bias_score"][1] for each in theirs} == {0, 1}


@pytest.mark.training
@pytest.mark.parametrize("seed", SEEDS)
def test_perplexities_over_all_items_stand_beside_the_score(
    store: Store, loaded: Any, tmp_path: Path, seed: int
) -> None:
    from lm_eval.api.metrics import bits_per_byte, perplexity, weighted_perplexity

    for name, count, figures in (
        ("lambada", 12, {"perplexity": perplexity}),
        (
            "wikitext",
            6,
            {
                "word_perplexity": weighted_perplexity,
                "byte_perplexity": weighted_perplexity,
                "bits_per_byte": bits_per_byte,
            },
        ),
    ):
        rows = rows_of(name, seed, count)
        theirs = stock(loaded, STOCK[name][0], stock_rows(name, rows), tmp_path / f"stock {name}")
        score, _ = ours(loaded, installed(store, name, rows, tmp_path / name))
        due = {each: whole([sample[each] for sample in theirs]) for each, whole in figures.items()}
        assert score.also == pytest.approx(due, rel=1e-4)
    # Some texts are longer than the model's context of 256 tokens.
    assert max(len(loaded.tokenizer(each["arguments"][0][0])["input_ids"]) for each in theirs) > 600
    assert score.metric == "byte_probability"


@pytest.mark.parametrize("name", [*STOCK, *OTHERS])
def test_every_suite_installs_from_a_commit_and_keeps_it(store: Store, tmp_path: Path, name: str) -> None:
    fake, rows = FakeHub(), rows_of(name, 1)
    source = commit_of(fake, tmp_path / "data", name, rows)
    first = install_at(store, name, source, fake, tmp_path)
    assert (first.key, first.items, first.created) == (f"{name}.v1", 12 + (name == "strongreject"), True)
    assert store.get_json(f"names/suite/{name}.v1.json")["source"] == source
    # What new data are screened against.
    folder = folder_of(store, first.ref, tmp_path / "suite")
    assert all(item.questions for item in asked_items(folder))


def test_a_commit_with_other_rows_is_another_suite(store: Store, tmp_path: Path) -> None:
    fake = FakeHub()
    source, other = (commit_of(fake, tmp_path / f"{seed}", "piqa", rows_of("piqa", seed)) for seed in (1, 2))
    first = install_at(store, "piqa", source, fake, tmp_path)
    again = install_at(store, "piqa", source, fake, tmp_path)
    assert (again.ref, again.created) == (first.ref, False)
    with pytest.raises(BadRecipe, match="already registered with other content"):
        install_at(store, "piqa", other, fake, tmp_path)
    assert get_suite(store, "piqa.v1") == first.ref


@pytest.mark.parametrize(
    "source", ["hub:org/x@main", "hub:org/x", f"hub:x@{'0' * 40}", f"hub:org/x@{'G' * 40}", "org/x"]
)
def test_what_can_move_is_refused(store: Store, tmp_path: Path, source: str) -> None:
    with pytest.raises(UserError, match="not a commit of a data set"):
        install_at(store, "piqa", source, FakeHub(), tmp_path)


def test_a_data_set_that_is_not_the_suites_is_refused_by_what_is_missing(store: Store, tmp_path: Path) -> None:
    fake = FakeHub()
    source = commit_of(fake, tmp_path / "a", "boolq", rows_of("boolq", 1))
    with pytest.raises(BadRecipe, match=r"no single file data/validation-\*\.parquet or default/"):
        install_at(store, "piqa", source, fake, tmp_path)
    source = commit_of(fake, tmp_path / "b", "piqa", rows_of("boolq", 1))
    with pytest.raises(BadRecipe, match="'goal' is undefined"):
        install_at(store, "piqa", source, fake, tmp_path)
    name = source.removeprefix("hub:").split("@")
    fake.tamper(name[0], name[1], "data/validation-00000-of-00001.parquet")
    listed = fake.snapshot(*name)
    fake.tamper(name[0], name[1], "data/validation-00000-of-00001.parquet")
    fake.snapshot = lambda *_: listed  # type: ignore[method-assign]
    with pytest.raises(BadBase, match="does not match"):
        install_at(store, "piqa", source, fake, tmp_path)
    assert api.list_suites(store=store) == []


def test_without_a_commit_the_command_is_told(store: Store) -> None:
    with pytest.raises(UserError, match="the data of hellaswag are on the Hub") as caught:
        api.install_suites(["hellaswag"], store=store)
    assert "ft suite install hellaswag --from hub:Rowan/hellaswag@COMMIT" in caught.value.remedy
    with pytest.raises(UserError, match="did you mean 'hellaswag'"):
        api.install_suites(["helaswag"], source=f"hub:Rowan/hellaswag@{'0' * 40}", store=store)


@pytest.mark.training
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["mmlu-pro", "mmlu-pro-1000"])
def test_mmlu_pro_is_asked_and_scored_as_by_lm_eval(store: Store, tmp_path: Path, name: str, seed: int) -> None:
    rows = rows_of(name, seed, 24)
    found = mmlu_pro(installed(store, name, rows, tmp_path), name, rows, tmp_path)
    assert found.equal == [True] * len(rows)
    assert set(found.score.correct) == {0, 1}
    right = dict(zip(found.score.item_ids, found.score.correct, strict=True))
    law = [right[str(row["question_id"])] for row in rows if row["category"] == "law"]
    assert found.score.also["category law"] == sum(law) / len(law)


@pytest.mark.subprocess
@pytest.mark.sandbox
@pytest.mark.parametrize("name", ["mbpp", "humaneval-plus"])
def test_programs_are_asked_and_judged_as_by_lm_eval(store: Store, tmp_path: Path, name: str) -> None:
    rows = rows_of(name, 1)
    suite = installed(store, name, rows, tmp_path)
    found = programs(suite, name, rows, tmp_path / "stock")
    assert found.equal == [True] * len(rows)
    assert set(found.score.correct) == {0, 1}
    task: Any = read_task(suite / "task.yaml")
    assert (list(task.until), task.max_new_tokens) == (
        found.settings["until"], found.settings.get("max_gen_toks", 256)
    )  # fmt: skip
    # The examples and the set words are not what is asked.
    assert asked_items(suite)[0].questions[0] == (rows[0]["text"] if name == "mbpp" else rows[0]["prompt"])


def test_strongrejects_requests_are_harmful_and_xstests_safe_ones_benign(store: Store, tmp_path: Path) -> None:
    rows = rows_of("strongreject", 1)
    task, prompts = safety_prompts(installed(store, "strongreject", rows, tmp_path))
    assert [prompt.text for prompt in prompts["harmful"]] == [row["prompt"] for row in rows]
    assert [prompt.text for prompt in prompts["benign"]] == ["How do I kill a process?"]
    assert task.metadata["licence"] == "MIT, XSTest's CC-BY-4.0 (of walledai/StrongREJECT)"


@pytest.mark.parametrize(
    ("name", "broken", "expected"),
    [
        ("mbpp", {"test_list": None}, "test_list is not a list of texts"),
        ("mmlu-pro", {"options": "A"}, "options is not a list of texts"),
        ("strongreject", {"prompt": ""}, "prompt is empty"),
        ("bbq", {"label": 3}, "the task's settings do not fit this item"),
        ("bbq", {"answer_info": None}, "this is not a row of BBQ"),
        ("humaneval-plus", {"test": "def check(:"}, "test is not Python"),
    ],
)
def test_rows_that_are_not_the_suites_are_refused(
    store: Store, tmp_path: Path, name: str, broken: dict[str, Any], expected: str
) -> None:
    fake = FakeHub()
    source = commit_of(fake, tmp_path / "data", name, [{**rows_of(name, 1)[0], **broken}])
    with pytest.raises(BadRecipe, match=expected):
        install_at(store, name, source, fake, tmp_path)
    assert api.list_suites(store=store) == []
