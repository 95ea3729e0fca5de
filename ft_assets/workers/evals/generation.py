"""Greedy answers of a model to many prompts, in batches of similar lengths."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ft_assets.evals.model import LoadedModel
from ft_assets.evals.prefix_tree import MIN_TRUNK
from ft_assets.packs.encoding.tokenizer import ChatTokenizer

# Rows answered together, and tokens of them, more of them on a GPU (34 GB of keys and values for Llama-2-7B, 9 GB for
# Llama-3-8B); logits of a batch take at most 256 MiB in float32.
MAX_ROWS = 64
MAX_TOKENS, MAX_TOKENS_GPU = 16_384, 65_536
MAX_LOGITS = 1 << 26
# Generation settings that change what a greedy answer takes, with the values at which they do not.
_PLAIN: dict[str, tuple[Any, ...]] = {
    "repetition_penalty": (None, 1.0),
    "encoder_repetition_penalty": (None, 1.0),
    "no_repeat_ngram_size": (None, 0),
    "encoder_no_repeat_ngram_size": (None, 0),
    "min_length": (None, 0),
    "guidance_scale": (None, 1.0),
    "num_beams": (None, 1),
    **dict.fromkeys(
        (
            "bad_words_ids",
            "begin_suppress_tokens",
            "exponential_decay_length_penalty",
            "forced_bos_token_id",
            "forced_eos_token_id",
            "min_new_tokens",
            "sequence_bias",
            "suppress_tokens",
            "watermarking_config",
        ),
        (None,),
    ),
}
# From the new tokens of rows to whether each of them is enough.
Stop = Callable[[list[list[int]]], list[bool]]


def end_ids(model: Any, tokenizer: ChatTokenizer, turn_ends: Iterable[str]) -> list[int]:
    """Ids that end an answer: those of the model's generation settings, and what ends the template's turns."""
    named = getattr(model.generation_config, "eos_token_id", None)
    ids = set(named if isinstance(named, list) else [] if named is None else [named])
    ids |= {number for text in turn_ends if (number := tokenizer.tokenizer.token_to_id(text)) is not None}
    return sorted(ids)


def batches(lengths: Sequence[int], vocabulary: int = 1) -> Iterator[list[int]]:
    """Places in batches of similar lengths within the limits above; longest first, ties by place."""
    import torch

    most = MAX_TOKENS_GPU if torch.cuda.is_available() else MAX_TOKENS
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: (-lengths[place], place)):
        longest = lengths[batch[0]] if batch else 0
        tokens = (len(batch) + 1) * longest
        if batch and (len(batch) == MAX_ROWS or tokens > most or tokens * vocabulary > MAX_LOGITS):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def generate(
    loaded: LoadedModel,
    prompts: Sequence[list[int]],
    max_new_tokens: int,
    ends: list[int],
    stop: Stop | None = None,
) -> list[list[int]]:
    """Greedy continuations without their end tokens.

    What all prompts begin with is computed once, and rows that have ended leave the batch. ``stop`` is given the new
    tokens of all rows that go on, after each, and says which have ended otherwise; another engine is told its
    ``texts``, where it has some, and else writes on. A base whose generation settings
    do more than take the likeliest token (such as a penalty on repetition) is left to Transformers.
    """
    if loaded.writer is not None:
        return loaded.writer.write(prompts, max_new_tokens, ends, getattr(stop, "texts", ()))
    if takes_the_likeliest(loaded.model.generation_config):
        return _Greedy(loaded.model, ends, stop).write(prompts, max_new_tokens)
    return _generate(loaded.model, prompts, max_new_tokens, ends, stop)


def takes_the_likeliest(settings: Any) -> bool:
    """Whether nothing in a model's generation settings changes which token a greedy answer takes."""
    return all(getattr(settings, name, None) in plain for name, plain in _PLAIN.items())


class _Greedy:
    """Writes one batch of answers."""

    def __init__(self, model: Any, ends: list[int], stop: Stop | None) -> None:
        self._model, self._ends, self._stop = model, frozenset(ends), stop
        bare = model.get_base_model() if hasattr(model, "get_base_model") else model
        keeps = "logits_to_keep" in inspect.signature(bare.forward).parameters
        self._last = {"logits_to_keep": 1} if keeps else {}

    def write(self, prompts: Sequence[list[int]], max_new_tokens: int) -> list[list[int]]:
        """The answers in the prompts' order."""
        import torch

        answers: list[list[int]] = [[] for _ in prompts]
        active = list(range(len(prompts)))
        with torch.inference_mode():
            logits, cache, mask = self._read(prompts)
            position = mask.sum(1)
            while True:
                tokens = logits[:, -1].argmax(1)
                kept = self._going_on(tokens.tolist(), [answers[row] for row in active])
                if not kept or len(answers[active[kept[0]]]) == max_new_tokens:
                    return answers
                if len(kept) < len(active):
                    rows = torch.tensor(kept, device=tokens.device)
                    cache.batch_select_indices(rows)
                    tokens, mask, position = tokens[rows], mask[rows], position[rows]
                    active = [active[row] for row in kept]
                mask = torch.cat([mask, mask.new_ones(len(active), 1)], dim=1)
                logits = self._model(
                    input_ids=tokens[:, None],
                    attention_mask=mask,
                    position_ids=position[:, None],
                    past_key_values=cache,
                    use_cache=True,
                ).logits
                position = position + 1

    def _going_on(self, tokens: list[int], answers: list[list[int]]) -> list[int]:
        """Add its token to each answer that it does not end; the rows that go on, whose answers are equally long."""
        rows = [row for row, token in enumerate(tokens) if token not in self._ends]
        for row in rows:
            answers[row].append(tokens[row])
        stopped = self._stop([answers[row] for row in rows]) if self._stop and rows else [False] * len(rows)
        return [row for row, ended in zip(rows, stopped, strict=True) if not ended]

    def _read(self, prompts: Sequence[list[int]]) -> tuple[Any, Any, Any]:
        """The prompts' last logits [rows, 1, vocabulary], their cache, and the mask [rows, tokens] of what is real."""
        import torch
        from transformers import DynamicCache

        device = self._model.device
        shared = self._shared(prompts)
        cache = DynamicCache(config=self._model.config.get_text_config())
        if shared:
            trunk = torch.tensor([prompts[0][:shared]], device=device)
            self._model(input_ids=trunk, past_key_values=cache, use_cache=True, **self._last)
            cache.batch_repeat_interleave(len(prompts))
        width = max(len(prompt) for prompt in prompts) - shared
        ids = torch.zeros((len(prompts), width), dtype=torch.long)
        mask = torch.ones((len(prompts), shared + width), dtype=torch.long)
        for row, prompt in enumerate(prompts):
            own = prompt[shared:]
            ids[row, width - len(own) :] = torch.tensor(own)
            mask[row, shared : shared + width - len(own)] = 0
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, shared:]
        logits = self._model(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            position_ids=positions.to(device),
            past_key_values=cache,
            use_cache=True,
            **self._last,
        ).logits
        return logits, cache, mask.to(device)

    def _shared(self, prompts: Sequence[list[int]]) -> int:
        """Tokens that are computed once for all rows, 0 where that is not worth it.

        Padding then lies behind them, and a sliding window would count it.
        """
        from ft_assets.evals.tree_scoring import longest_tree

        shared = min(_in_common(prompts), min(len(prompt) for prompt in prompts) - 1)
        if len(prompts) == 1 or shared < MIN_TRUNK or longest_tree(self._model) is not None:
            return 0
        return shared


def _in_common(prompts: Sequence[list[int]]) -> int:
    """How many tokens all prompts begin with alike."""
    first, last = min(prompts), max(prompts)
    return next(
        (place for place, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first)
    )


def _generate(
    model: Any,
    prompts: Sequence[list[int]],
    max_new_tokens: int,
    ends: list[int],
    stop: Stop | None = None,
) -> list[list[int]]:
    """The same by Transformers' own loop, with all of the base's generation settings but sampling. What a row holds
    after ``stop`` is padding."""
    import torch
    from transformers import GenerationConfig, StoppingCriteriaList

    width = max(len(prompt) for prompt in prompts)
    padding = ends[0] if ends else 0
    ids = torch.full((len(prompts), width), padding, dtype=torch.long)
    mask = torch.zeros((len(prompts), width), dtype=torch.long)
    for number, prompt in enumerate(prompts):
        ids[number, width - len(prompt) :] = torch.tensor(prompt)
        mask[number, width - len(prompt) :] = 1
    settings = GenerationConfig(
        do_sample=False, max_new_tokens=max_new_tokens, eos_token_id=ends or None, pad_token_id=padding
    )
    criteria = StoppingCriteriaList()
    if stop is not None:
        criteria.append(lambda seen, _, **__: torch.tensor(stop(seen[:, width:].tolist()), device=seen.device))
    with torch.inference_mode():
        out = model.generate(
            input_ids=ids.to(model.device),
            attention_mask=mask.to(model.device),
            generation_config=settings,
            stopping_criteria=criteria,
        )
    answers = []
    for new in out[:, width:].tolist():
        end = next((place for place, token in enumerate(new) if token in ends), len(new))
        answers.append(new[:end])
    return answers
