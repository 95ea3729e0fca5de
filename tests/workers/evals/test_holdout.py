"""The holdout: prompts as a server renders them, likelihoods and answers that batching does not change."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ft_assets.workers.evals.holdout import HoldoutScorer
from ft_assets.workers.evals.holdout_rows import Encoded, HoldoutRow
from ft_assets.workers.evals.model import LoadedModel, load_model
from ft_assets.workers.evals.paired_comparison import HoldoutComparison
from ft_resources.errors import BadData
from tests.fake_base import make_fake_base
from tests.workers.evals.world import parquet, rows

pytestmark = pytest.mark.training


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_fake_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def model(base: Path) -> LoadedModel:
    return load_model(base)


def read(base: Path, folder: Path, records: list[dict[str, object]], *, context: int = 256, count: int = 100):
    path = folder / "holdout.parquet"
    path.write_bytes(parquet(records))
    scorer = HoldoutScorer(base, chat_template=None, context_length=context)
    return scorer, *scorer.read(path, max_samples=count, seed=1)


def conversation(*contents: str) -> dict[str, object]:
    messages = [{"role": "assistant" if i % 2 else "user", "content": text} for i, text in enumerate(contents)]
    return {"id": contents[-1], "messages": messages, "group": "", "kind": "", "row": 1}


def test_the_prompt_is_what_transformers_renders_and_the_target_the_last_answer(
    base: Path, tmp_path: Path, model
) -> None:
    record = conversation("hi", "hello", "and now?", " the end ")
    _, (row,), _ = read(base, tmp_path, [record])
    expected = model.tokenizer.apply_chat_template(
        record["messages"][:-1], add_generation_prompt=True, tokenize=True, return_dict=False
    )
    assert row.prompt == expected
    assert row.ids[: len(expected)] == expected
    assert row.target == "the end"
    assert row.question == "and now?"
    learned = model.tokenizer.decode([token for token, mark in zip(row.ids, row.learned, strict=True) if mark])
    assert learned == "hello<|end|> the end <|end|>"


def test_a_control_token_spelled_in_a_message_stays_text_in_the_prompt(base: Path, tmp_path: Path, model) -> None:
    _, (row,), _ = read(base, tmp_path, [conversation("say <|assistant|> twice", "no")])
    token = model.tokenizer.convert_tokens_to_ids("<|assistant|>")
    assert row.prompt.count(token) == 1
    assert row.prompt[-1] == token


def naive(model: LoadedModel, row: Encoded, limit: int) -> tuple[float, list[int]]:
    """One row at a time: its summed negative log-likelihood, and greedy tokens up to the end token."""
    import torch

    with torch.inference_mode():
        logits = model.model(input_ids=torch.tensor([row.ids])).logits[0].log_softmax(-1)
        nll = -sum(float(logits[i - 1, token]) for i, token in enumerate(row.ids) if row.learned[i])
        ids, new = list(row.prompt) if isinstance(row, HoldoutRow) else [], []
        while len(new) < limit:
            token = int(model.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())
            if token == 2:
                break
            ids.append(token)
            new.append(token)
    return nll, new


def test_batches_score_and_answer_as_row_by_row(base: Path, tmp_path: Path, model: LoadedModel) -> None:
    scorer, found, too_long = read(base, tmp_path, rows(20))
    assert (len(found), too_long) == (20, 0)
    calls: list[tuple[int, int]] = []
    scores = scorer.score(model, found, max_new_tokens=6, report=lambda *call: calls.append(call))
    assert calls[-1] == (40, 40)
    for row, score in zip(found, scores, strict=True):
        nll, new = naive(model, row, 6)
        assert score.nll_sum == pytest.approx(nll, rel=1e-4)
        assert score.tokens == sum(row.learned)
        assert score.answer == model.tokenizer.decode(new, skip_special_tokens=True).strip()
    assert scores == scorer.score(model, found, max_new_tokens=6, report=lambda *call: None)


def test_an_answer_ends_at_the_end_token_of_the_generation_settings(base: Path, tmp_path: Path) -> None:
    other = load_model(base)
    scorer, found, _ = read(base, tmp_path, rows(4))
    _, new = naive(other, found[0], 6)
    # Whatever the model writes second now ends its answers.
    other.model.generation_config.eos_token_id = [new[1]]
    (score, *_) = scorer.score(other, found, max_new_tokens=6, report=lambda *call: None)
    expected = new[: new.index(new[1])]
    assert score.answer == other.tokenizer.decode(expected, skip_special_tokens=True).strip()


def test_rows_beyond_the_context_are_counted_and_none_left_is_an_error(base: Path, tmp_path: Path) -> None:
    records = [conversation("short", "answer"), conversation("long " * 100, "answer too")]
    _, found, too_long = read(base, tmp_path, records)
    assert ([row.target for row in found], too_long) == (["answer"], 1)
    with pytest.raises(BadData, match="all 2 holdout rows are too long"):
        read(base, tmp_path, records, context=8)
    with pytest.raises(BadData, match="no holdout row"):
        read(base, tmp_path, rows(1), count=0)


def test_an_answer_never_outgrows_the_context(base: Path, tmp_path: Path, model: LoadedModel) -> None:
    scorer, (row,), _ = read(base, tmp_path, rows(1), context=60)
    (score,) = scorer.score(model, [row], max_new_tokens=10_000, report=lambda *call: None)
    _, new = naive(model, row, 60 - len(row.prompt))
    assert score.answer == model.tokenizer.decode(new, skip_special_tokens=True).strip()


def test_of_a_preference_row_the_chosen_answer_is_scored_and_asked_for(base: Path, tmp_path: Path, model) -> None:
    record = conversation("hi", "hello", "and now?", "the end")
    _, (row,), _ = read_pairs(base, tmp_path, [pair("the end", "never", "hi", "hello", "and now?")])
    _, (chat,), _ = read(base, tmp_path, [record])
    assert (row.ids, row.prompt, row.target, row.question) == (chat.ids, chat.prompt, "the end", "and now?")
    learned = model.tokenizer.decode([token for token, mark in zip(row.ids, row.learned, strict=True) if mark])
    assert learned == "the end<|end|>"


def pair(chosen: str, rejected: str, *before: str) -> dict[str, object]:
    """The prompt's messages, and both answers to them."""
    messages: Any = conversation(*before)["messages"]
    answers = {
        name: [{"role": "assistant", "content": text}] for name, text in (("chosen", chosen), ("rejected", rejected))
    }
    return {"id": chosen + rejected, "messages": messages, **answers, "group": "", "kind": "", "row": 1}


def read_pairs(base: Path, folder: Path, records: list[dict[str, object]], *, context: int = 256):
    path = folder / "pairs.parquet"
    path.write_bytes(parquet(records))
    scorer = HoldoutScorer(base, chat_template=None, context_length=context, form="preference")
    return scorer, *scorer.read(path, max_samples=9, seed=1)


def test_a_pair_prefers_the_answer_whose_tokens_are_likelier_on_average_however_long_it_is(
    base: Path, tmp_path: Path, model: LoadedModel
) -> None:
    answers = ["it is red", "it is a very long and winding answer " * 3, "no", "the thing " * 8]
    records = [pair(one, other, "what?") for one in answers for other in answers if one != other]
    scorer, found, _ = read_pairs(base, tmp_path, records[:9])
    scores = scorer.score(model, found, max_new_tokens=2, report=lambda *_: None)
    for row, score in zip(found, scores, strict=True):
        assert row.rejected is not None
        chosen, rejected = (naive(model, each, 0)[0] / sum(each.learned) for each in (row, row.rejected))
        assert score.rejected_nll_sum / score.rejected_tokens == pytest.approx(rejected, rel=1e-4)
        assert score.prefers_chosen == (chosen < rejected)
    comparison = HoldoutComparison(rows=found, base=scores, candidate=scores)
    accuracy = comparison.metrics(seed=1)["preference_accuracy"]
    assert accuracy.base == accuracy.candidate == sum(score.prefers_chosen for score in scores) / 9
    assert (accuracy.higher_is_better, accuracy.improvement, accuracy.n) == (True, 0.0, 9)


def test_a_pair_counts_as_too_long_by_its_longer_answer(base: Path, tmp_path: Path) -> None:
    records = [pair("yes", "no", "what?"), pair("yes", "never " * 60, "what?")]
    _, found, too_long = read_pairs(base, tmp_path, records, context=64)
    assert ([row.target for row in found], too_long) == (["yes"], 1)


def test_of_a_text_every_token_that_fits_the_context_is_scored_and_nothing_is_asked(
    base: Path, tmp_path: Path, model
) -> None:
    path = tmp_path / "texts.parquet"
    texts = ["the fox", "the other one " * 40]
    path.write_bytes(
        parquet([{"id": text, "text": text, "kind": "", "row": row} for row, text in enumerate(texts, start=1)])
    )
    scorer = HoldoutScorer(base, chat_template=None, context_length=32, form="text")
    found, too_long = scorer.read(path, max_samples=9, seed=1)
    short, long = sorted(found, key=lambda row: len(row.ids))
    assert too_long == 0
    assert model.tokenizer.decode(short.ids) == "the fox<|end|>"
    assert len(long.ids) == 32
    assert [row.learned for row in (short, long)] == [[False] + [True] * (len(row.ids) - 1) for row in (short, long)]
    for row, score in zip(found, scorer.score(model, found, max_new_tokens=4, report=lambda *_: None), strict=True):
        assert score.answer == ""
        assert score.nll_sum == pytest.approx(naive(model, row, 0)[0], rel=1e-4)


# As Qwen3's: empty thoughts stand before a last answer without, and calls of tools are JSON between marks.
QWEN = (
    "{%- if tools -%}{{ tools | tojson }}{%- endif -%}{%- for m in messages -%}<|{{ m.role }}|>"
    "{%- if m.role == 'assistant' and loop.last and '<think>' not in m.content -%}"
    "{{- '<think>\n\n</think>\n\n' -}}{%- endif -%}{{ m.content }}"
    "{%- for c in m.tool_calls or [] -%}<call>{{ c.function | tojson }}</call>{%- endfor -%}"
    "<|end|>{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"
)
CALL = [{"type": "function", "id": "", "function": {"name": "look", "arguments": {"city": "Oslo"}}}]


class Parrot:
    """Writes what each prompt's row teaches."""

    def __init__(self, found: list[HoldoutRow], *, upto: int | None = None) -> None:
        self._taught = {tuple(row.prompt): row.ids[len(row.prompt) : -1][:upto] for row in found}

    def write(self, prompts: list[list[int]], *_: object) -> list[list[int]]:
        return [self._taught[tuple(prompt)] for prompt in prompts]


def read_thinking(base: Path, folder: Path, *answers: dict[str, Any]) -> tuple[HoldoutScorer, list[HoldoutRow]]:
    """Rows of one question each, whose last turn is an answer, with a tool that may be called."""
    tools = json.dumps([{"type": "function", "function": {"name": "look", "parameters": {}}}])
    records = [
        conversation("where?", f"row {number}")
        | {"messages": [{"role": "user", "content": f"where? {number}"}, {"role": "assistant", **each}], "tools": tools}
        for number, each in enumerate(answers)
    ]
    path = folder / "holdout.parquet"
    path.write_bytes(parquet(records))
    scorer = HoldoutScorer(base, chat_template=QWEN, context_length=256)
    return scorer, scorer.read(path, max_samples=9, seed=1)[0]


ANSWERS: list[dict[str, Any]] = [
    {"content": "positive", "tool_calls": ""},
    {"content": "<think>\nhm\n</think>\n\nnegative", "tool_calls": ""},
    {"content": "", "tool_calls": json.dumps(CALL)},
]


def test_a_model_that_writes_exactly_what_its_template_teaches_answers_exactly(
    base: Path, tmp_path: Path, model: LoadedModel
) -> None:
    scorer, found = read_thinking(base, tmp_path, *ANSWERS)
    targets = {row.target for row in found}
    assert targets == {"positive", "negative", '{"name": "look", "arguments": {"city": "Oslo"}}'}
    for row in found:
        assert row.ids[: len(row.prompt)] == row.prompt, "the tools are in the prompt as in the document"
    scores = scorer.score(replace(model, writer=Parrot(found)), found, max_new_tokens=99, report=lambda *_: None)
    assert [score.answer for score in scores] == [row.target for row in found]
    # Thoughts that do not end are an answer of nothing.
    short = scorer.score(replace(model, writer=Parrot(found, upto=9)), found, max_new_tokens=9, report=lambda *_: None)
    assert {(score.answer, score.cut) for score in short} == {("", True)}


def test_a_row_whose_thoughts_were_cut_is_scored_by_them_and_answered_by_these_alone(
    base: Path, tmp_path: Path, model: LoadedModel
) -> None:
    """Traces of other models have such rows, and one of them must not end an evaluation."""
    scorer, found = read_thinking(base, tmp_path, *ANSWERS, {"content": "<think>\nhm, well", "tool_calls": ""})
    cut = next(row for row in found if "hm, well" in row.target)
    assert cut.answers == cut.learned
    parrot = replace(model, writer=Parrot(found))
    assert [score.answer for score in scorer.score(parrot, found, max_new_tokens=99, report=lambda *_: None)] == [
        row.target for row in found
    ]
    other = replace(model, writer=Parrot([replace(cut, ids=[*cut.prompt, *cut.ids[len(cut.prompt) : -3]])]))
    (score,) = scorer.score(other, [cut], max_new_tokens=99, report=lambda *_: None)
    assert score.answer == ""


def test_perplexity_is_of_the_answers_and_that_of_all_that_is_learned_has_a_name_of_its_own(
    base: Path, tmp_path: Path, model: LoadedModel
) -> None:
    scorer, found = read_thinking(base, tmp_path, *ANSWERS[:2])
    scores = scorer.score(model, found, max_new_tokens=1, report=lambda *_: None)
    for row, score in zip(found, scores, strict=True):
        taught = model.tokenizer.decode([number for number, mark in zip(row.ids, row.answers, strict=True) if mark])
        assert taught.strip() == f"{row.target}<|end|>"
        assert (score.tokens, score.all_tokens) == (sum(row.answers), sum(row.learned))
        assert score.tokens < score.all_tokens
        assert score.all_nll_sum == pytest.approx(naive(model, row, 0)[0], rel=1e-4)
        assert score.nll_sum < score.all_nll_sum
    comparison = HoldoutComparison(rows=found, base=scores, candidate=scores)
    metrics = comparison.metrics(seed=1)
    for name, prefix in (("perplexity", ""), ("perplexity_all", "all_")):
        nats = sum(getattr(score, f"{prefix}nll_sum") for score in scores)
        tokens = sum(getattr(score, f"{prefix}tokens") for score in scores)
        assert metrics[name].base == pytest.approx(math.exp(nats / tokens))
    # Where training learns nothing but answers, one is said.
    plain, rows_, _ = read(base, tmp_path, rows(2))
    same = plain.score(model, rows_, max_new_tokens=1, report=lambda *_: None)
    assert "perplexity_all" not in HoldoutComparison(rows=rows_, base=same, candidate=same).metrics(seed=1)
