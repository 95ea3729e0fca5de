"""Greedy answers of a model to many prompts, in batches of similar lengths."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ft_assets.evals.model import LoadedModel
from ft_assets.packs.encoding.tokenizer import ChatTokenizer

# Rows answered together, and tokens of them; logits of a batch take at most 256 MiB in float32.
MAX_ROWS = 64
MAX_TOKENS = 16_384
MAX_LOGITS = 1 << 26


def end_ids(model: Any, tokenizer: ChatTokenizer, turn_ends: Iterable[str]) -> list[int]:
    """Ids that end an answer: those of the model's generation settings, and what ends the template's turns."""
    named = getattr(model.generation_config, "eos_token_id", None)
    ids = set(named if isinstance(named, list) else [] if named is None else [named])
    ids |= {number for text in turn_ends if (number := tokenizer.tokenizer.token_to_id(text)) is not None}
    return sorted(ids)


def batches(lengths: Sequence[int], vocabulary: int = 1) -> Iterator[list[int]]:
    """Places in batches of similar lengths within the limits above; longest first, ties by place."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: (-lengths[place], place)):
        longest = lengths[batch[0]] if batch else 0
        tokens = (len(batch) + 1) * longest
        if batch and (len(batch) == MAX_ROWS or tokens > MAX_TOKENS or tokens * vocabulary > MAX_LOGITS):
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
    stop: Callable[[list[list[int]]], list[bool]] | None = None,
) -> list[list[int]]:
    """Greedy continuations without their end tokens.

    ``stop`` is given all rows' new tokens after each and says which rows have ended otherwise; what a row holds after
    that is padding.
    """
    import torch
    from transformers import GenerationConfig, StoppingCriteriaList

    model = loaded.model
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
