"""The engine vllm, against a stand-in with the documented part of its API: vLLM itself is not installed here.

The stand-in answers with our own greedy loop over the folder that it is given, so that what comes back can be compared.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ft_assets.settings.recipe.acceptance import EvaluationSettings
from ft_assets.workers.evals.generation import generate
from ft_assets.workers.evals.model import load_model
from ft_assets.workers.evals.stop_sequences import continue_texts
from ft_resources.errors import UserError
from tests.fake_base import make_fake_base
from tests.workers.evals.world import lora_files

pytestmark = pytest.mark.training
PROMPTS = [list(range(10, 20)), list(range(30, 33)), list(range(40, 70))]


@dataclass(kw_only=True)
class SamplingParams:
    temperature: float = 1.0
    max_tokens: int | None = 16
    stop_token_ids: list[int] | None = None
    stop: list[str] | None = None
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True


@dataclass
class LoRARequest:
    lora_name: str
    lora_int_id: int
    lora_path: str


@dataclass
class TokensPrompt:
    prompt_token_ids: list[int]


@dataclass(kw_only=True)
class LLM:
    model: str
    tokenizer: str
    trust_remote_code: bool
    dtype: str
    max_model_len: int
    enable_prefix_caching: bool
    gpu_memory_utilization: float
    seed: int
    generation_config: str
    enable_lora: bool = False
    max_lora_rank: int = 16
    asked: list[SamplingParams] = field(default_factory=list)
    closed: bool = False

    def __post_init__(self) -> None:
        self.llm_engine = SimpleNamespace(engine_core=SimpleNamespace(shutdown=self._shut))

    def _shut(self) -> None:
        self.closed = True

    def generate(
        self,
        prompts: Sequence[TokensPrompt],
        sampling_params: SamplingParams,
        *,
        use_tqdm: bool,
        lora_request: LoRARequest | None = None,
    ) -> list[Any]:
        assert sampling_params.temperature == 0.0
        assert sampling_params.max_tokens is not None
        self.asked.append(sampling_params)
        loaded = load_model(Path(self.model), Path(lora_request.lora_path) if lora_request else None)
        asked = [prompt.prompt_token_ids for prompt in prompts]
        # As vLLM does it, the token that ends an answer is among its tokens.
        answers = generate(loaded, asked, sampling_params.max_tokens, [])
        return [SimpleNamespace(outputs=[SimpleNamespace(token_ids=tuple(answer))]) for answer in answers]


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, members in (
        ("vllm", {"LLM": LLM, "SamplingParams": SamplingParams}),
        ("vllm.inputs", {"TokensPrompt": TokensPrompt}),
        ("vllm.lora", {}),
        ("vllm.lora.request", {"LoRARequest": LoRARequest}),
    ):
        module = ModuleType(name)
        module.__dict__.update(members)
        monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return make_fake_base(tmp_path / "base")


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    folder = tmp_path / "adapter"
    folder.mkdir()
    for name, data in lora_files(0.5).items():
        (folder / name).write_bytes(data)
    return folder


def test_answers_are_the_candidates_and_inside_as_base_the_bases(vllm: None, base: Path, adapter: Path) -> None:
    plain, tuned = load_model(base), load_model(base, adapter)
    both = load_model(base, adapter, engine="vllm")
    candidate, original = (generate(loaded, PROMPTS, 9, [2]) for loaded in (tuned, plain))
    assert candidate != original
    assert generate(both, PROMPTS, 9, [2]) == candidate
    with both.as_base():
        assert generate(both, PROMPTS, 9, [2]) == original
    merged = both.merged()
    assert generate(merged, PROMPTS, 9, [2]) == candidate
    assert merged.writer is not None
    llm: Any = merged.writer._llm
    assert (llm.enable_lora, llm.max_lora_rank) == (True, 8)
    assert (llm.trust_remote_code, llm.generation_config, llm.enable_prefix_caching) == (False, "vllm", True)
    merged.close()
    assert llm.closed


def test_end_tokens_are_no_part_of_an_answer_and_texts_that_end_one_are_told(vllm: None, base: Path) -> None:
    loaded = load_model(base, engine="vllm")
    whole = generate(load_model(base), PROMPTS, 9, [])
    ends = [whole[0][3]]
    cut = [answer[: answer.index(ends[0])] if ends[0] in answer else answer for answer in whole]
    assert generate(loaded, PROMPTS, 9, ends) == cut
    assert loaded.writer is not None
    llm: Any = loaded.writer._llm
    assert llm.asked[-1].stop is None
    texts = ["what is", "the house"]
    encode = loaded.tokenizer.encode
    more = {"until": ["x", "\n"], "max_new_tokens": 5, "report": lambda *_: None}
    ours = continue_texts(load_model(base), texts, encode, **more)
    assert continue_texts(loaded, texts, encode, **more) == ours
    assert llm.asked[-1].stop == ["x", "\n"]
    assert llm.asked[-1].include_stop_str_in_output


def test_where_vllm_is_not_installed_the_recipe_is_told_so(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(UserError, match="vllm, but vLLM is not installed") as caught:
        load_model(base, engine="vllm")
    assert caught.value.where == "evaluation.engine"


def test_a_recipe_that_says_nothing_of_engines_is_what_it_was() -> None:
    assert "engine" not in EvaluationSettings().model_dump(mode="json")
    assert EvaluationSettings(engine="vllm").model_dump(mode="json")["engine"] == "vllm"
