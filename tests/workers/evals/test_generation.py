"""Greedy answers are those of Transformers' own loop, in whatever batch they are written."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import GenerationConfig, LlamaConfig, MistralConfig, Qwen2Config

from ft_assets.workers.evals.generation import _generate, generate, takes_the_likeliest
from ft_assets.workers.evals.model import LoadedModel
from tests.workers.evals.small_models import made, shape

pytestmark = pytest.mark.training
SHAPE = shape(40, 0.6)


def loaded_of(config: Any) -> LoadedModel:
    return LoadedModel(model=made(config), tokenizer=None)


LLAMA = loaded_of(LlamaConfig(**SHAPE))


def prompts(count: int, shared: int, seed: int = 0) -> list[list[int]]:
    random = torch.Generator().manual_seed(seed)
    trunk = torch.randint(40, (shared,), generator=random).tolist()
    return [trunk + torch.randint(40, (3 + 4 * row,), generator=random).tolist() for row in range(count)]


@pytest.mark.parametrize("shared", [0, 120])
@pytest.mark.parametrize(
    "config",
    [LlamaConfig(**SHAPE), Qwen2Config(**SHAPE), MistralConfig(**SHAPE, sliding_window=60)],
    ids=lambda config: config.model_type,
)
def test_answers_are_those_of_transformers_own_loop(config: Any, shared: int) -> None:
    loaded = loaded_of(config)
    # Many end tokens, so that rows leave the batch at different steps.
    ends = [3, 4, 5, 6, 7, 8]
    asked = prompts(9, shared)
    answers = generate(loaded, asked, 30, ends)
    assert answers == _generate(loaded.model, asked, 30, ends)
    assert len({len(answer) for answer in answers}) > 2
    assert not any(token in ends for answer in answers for token in answer)


@given(st.integers(1, 8), st.sampled_from([0, 30, 64, 200]), st.integers(1, 12), st.integers(0, 5))
def test_an_answer_does_not_depend_on_the_other_rows(count: int, shared: int, new: int, seed: int) -> None:
    asked = prompts(count, shared, seed)
    together = generate(LLAMA, asked, new, [3, 4])
    assert together == [generate(LLAMA, [prompt], new, [3, 4])[0] for prompt in asked]
    assert all(len(answer) <= new for answer in together)


def test_prompts_that_are_all_the_same_have_one_answer() -> None:
    (prompt,) = prompts(1, 100)
    assert generate(LLAMA, [prompt] * 3, 8, []) == [generate(LLAMA, [prompt], 8, [])[0]] * 3


def test_a_row_that_has_enough_stops_and_the_others_go_on() -> None:
    asked = prompts(4, 0)
    whole = generate(LLAMA, asked, 12, [])
    word = whole[0][4]
    stopped = generate(LLAMA, asked, 12, [], stop=lambda answers: [answer[-1] == word for answer in answers])
    for answer, cut in zip(whole, stopped, strict=True):
        assert cut == (answer[: answer.index(word) + 1] if word in answer else answer)


def test_a_base_with_a_penalty_on_repetition_keeps_it() -> None:
    loaded = loaded_of(LlamaConfig(**SHAPE))
    asked = prompts(4, 0)
    plain = generate(loaded, asked, 20, [])
    loaded.model.generation_config = GenerationConfig(repetition_penalty=1.8, bos_token_id=1)
    assert not takes_the_likeliest(loaded.model.generation_config)
    assert generate(loaded, asked, 20, []) != plain
    assert takes_the_likeliest(GenerationConfig(do_sample=True, temperature=0.6, top_p=0.9))
