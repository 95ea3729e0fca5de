"""Generate answers with vLLM, if a recipe asks for it (``evaluation.engine: vllm``) and it is installed.

vLLM batches continuously and replays CUDA graphs, so that generation is bound by memory and not by launches. It shares
prompt prefixes by itself. Likelihoods stay with Transformers' model (``tree_scoring.py``): requests for
``prompt_logprobs`` do not read vLLM's prefix cache, so few-shot examples would be computed again for every choice.

Written against the API of vLLM's documentation (https://docs.vllm.ai, ``LLM``, ``SamplingParams``, ``LoRARequest``)
and tested with a fake; not run against vLLM itself.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ft_resources.errors import UserError
from ft_resources.json_object import json_object

# Leaves room in the same memory for Transformers' model.
_MEMORY_SHARE = 0.45
# Maximum ranks that vLLM supports; an adapter uses the next larger one.
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)


class VllmWriter:
    """vLLM's engine over a folder with weights, with an adapter or without.

    Raises UserError if vLLM is not installed, or does not support the adapter's rank.
    """

    def __init__(self, folder: Path, adapter: Path | None, *, tokenizer_folder: Path, context_length: int) -> None:
        try:
            from vllm import LLM
            from vllm.lora.request import LoRARequest
        except ImportError as error:
            raise UserError(
                "the recipe sets evaluation.engine to vllm, but vLLM is not installed in the evaluation workers",
                where="evaluation.engine",
                remedy="Install vllm into the workers' image, or set evaluation.engine to transformers.",
            ) from error
        adapters = {"enable_lora": True, "max_lora_rank": _room_for(adapter)} if adapter else {}
        self._llm: Any = LLM(
            model=str(folder),
            tokenizer=str(tokenizer_folder),
            trust_remote_code=False,
            dtype="auto",
            max_model_len=context_length,
            enable_prefix_caching=True,
            gpu_memory_utilization=_MEMORY_SHARE,
            seed=0,
            # vLLM's own defaults instead of the base's generation settings: the likeliest token.
            generation_config="vllm",
            **adapters,
        )
        self._adapter = LoRARequest("candidate", 1, str(adapter)) if adapter else None
        self._as_base = False

    def write(
        self, prompts: Sequence[list[int]], max_new_tokens: int, ends: list[int], until: Sequence[str]
    ) -> list[list[int]]:
        """Greedy continuations without their end tokens; an answer also ends after one of the texts ``until``."""
        from vllm import SamplingParams
        from vllm.inputs import TokensPrompt

        settings = SamplingParams(
            temperature=0.0,
            max_tokens=max_new_tokens,
            stop_token_ids=list(ends),
            stop=list(until) or None,
            include_stop_str_in_output=True,
            skip_special_tokens=False,
        )
        outputs = self._llm.generate(
            [TokensPrompt(prompt_token_ids=list(prompt)) for prompt in prompts],
            settings,
            use_tqdm=False,
            lora_request=None if self._as_base else self._adapter,
        )
        answers = [list(output.outputs[0].token_ids) for output in outputs]
        if len(answers) != len(prompts):
            raise RuntimeError(f"vLLM gave {len(answers)} answers to {len(prompts)} prompts")
        known = frozenset(ends)
        return [
            answer[: next((place for place, token in enumerate(answer) if token in known), len(answer))]
            for answer in answers
        ]

    @contextmanager
    def as_base(self) -> Iterator[None]:
        """While inside, answers are those of the base without the adapter."""
        self._as_base = True
        try:
            yield
        finally:
            self._as_base = False

    def close(self) -> None:
        """Free the memory; the writer must not be used afterwards."""
        core: Any = getattr(getattr(self._llm, "llm_engine", None), "engine_core", None)
        if hasattr(core, "shutdown"):
            core.shutdown()
        self._llm = None


def _room_for(adapter: Path) -> int:
    """The smallest maximum rank of vLLM that fits the adapter."""
    config = json_object(
        (adapter / "adapter_config.json").read_bytes(),
        UserError,
        where=str(adapter),
        remedy="Train the pair again.",
        what="adapter_config.json",
        members={"r": int, "rank_pattern": dict},
    )
    rank = max([config["r"], *map(int, (config.get("rank_pattern") or {}).values())])
    room = next((each for each in _RANKS if each >= rank), None)
    if room is None:
        raise UserError(
            f"vLLM supports adapters up to rank {_RANKS[-1]}; this one has rank {rank}",
            where="lora.rank",
            remedy="Set evaluation.engine to transformers.",
        )
    return room
