"""Likelihoods from a tree equal those of each sequence alone, and a model that cannot do this is detected."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import GPT2Config, LlamaConfig, MistralConfig, Phi3Config, Qwen2Config, Qwen3Config

from ft_assets.workers.evals.prefix_tree import Limits, Path
from ft_assets.workers.evals.tree_scoring import agrees, longest_tree, score_paths
from tests.workers.evals.small_models import made, shape

pytestmark = pytest.mark.training
SHAPE = shape(64, 0.5)

LLAMA = made(LlamaConfig(**SHAPE))


def alone(model: Any, path: Path) -> tuple[float, bool]:
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([path.tokens])).logits[0, path.first :].log_softmax(1)
    targets = torch.tensor(path.targets)
    return float(logits.gather(1, targets[:, None]).sum()), bool((logits.argmax(1) == targets).all())


def task(shots: int = 150, questions: int = 7) -> list[Path]:
    random = torch.Generator().manual_seed(3)

    def draw(count: int) -> list[int]:
        return torch.randint(64, (count,), generator=random).tolist()

    prefix, paths = draw(shots), []
    for question in range(questions):
        asked = prefix + draw(5 + 3 * question)
        for choice in range(4):
            answer = draw(1 + choice)
            paths.append(Path(tokens=asked + answer[:-1], targets=answer))
    return paths


def require_alike(model: Any, paths: list[Path], limits: Limits | None = None) -> None:
    found = dict(score_paths(model, paths, limits))
    assert len(found) == len(paths)
    for place, path in enumerate(paths):
        likelihood, greedy = alone(model, path)
        assert found[place][0] == pytest.approx(likelihood, abs=1e-3)
        assert found[place][1] == greedy


@pytest.mark.parametrize(
    "config",
    [
        LlamaConfig(**SHAPE),
        Qwen2Config(**SHAPE),
        Qwen3Config(**SHAPE, head_dim=8),
        Phi3Config(**SHAPE),
        MistralConfig(**SHAPE, sliding_window=400),
        GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=512),
    ],
    ids=lambda config: config.model_type,
)
@pytest.mark.parametrize("shots", [0, 150])
def test_a_tree_gives_the_likelihoods_of_each_sequence_alone(config: Any, shots: int) -> None:
    model = made(config)
    assert agrees(model)
    require_alike(model, task(shots))


@given(st.integers(0, 300), st.integers(1, 9), st.integers(16, 600), st.integers(1, 200))
def test_the_size_of_calls_changes_nothing(shots: int, questions: int, tokens: int, predictions: int) -> None:
    require_alike(LLAMA, task(shots, questions), Limits(tokens=tokens, predictions=predictions))


def test_several_subjects_reuse_what_their_trunks_begin_with() -> None:
    paths = [
        Path(tokens=[9] * 80 + [subject] * 90 + path.tokens, targets=path.targets)
        for subject in (1, 2, 3)
        for path in task(0, 9)
    ]
    require_alike(LLAMA, paths, Limits(tokens=128, predictions=1 << 20))


def test_a_model_that_makes_its_own_positions_is_found_out() -> None:
    class Deaf(torch.nn.Module):
        """Ignores the given positions, like models that count the tokens of their mask."""

        def __init__(self) -> None:
            super().__init__()
            self.inner, self.config, self.dtype, self.device = LLAMA, LLAMA.config, LLAMA.dtype, LLAMA.device

        def get_output_embeddings(self) -> Any:
            return self.inner.get_output_embeddings()

        def forward(self, position_ids: Any = None, **kwargs: Any) -> Any:
            return self.inner(**kwargs)

    assert not agrees(Deaf())
    assert agrees(LLAMA)


def test_windows_and_scaled_positions_bound_the_length_of_a_path() -> None:
    assert longest_tree(LLAMA) is None
    assert longest_tree(made(MistralConfig(**SHAPE, sliding_window=100))) == 100
    assert longest_tree(made(Qwen2Config(**SHAPE, sliding_window=100, use_sliding_window=False))) is None
    dynamic = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
    assert longest_tree(made(LlamaConfig(**SHAPE, rope_parameters=dynamic))) == 512
