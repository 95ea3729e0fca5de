"""Greedy answers of a model to many prompts, in batches of similar lengths."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ft_assets.workers.evals.chat_prompts import ChatPrompts
from ft_assets.workers.evals.model import LoadedModel, last_logits
from ft_assets.workers.evals.prefix_tree import MIN_TRUNK, common_prefix
from ft_assets.workers.templates.outputs import Output

# Rows and tokens of a batch, more on a GPU (34 GB of keys and values for Llama-2-7B, 9 GB for Llama-3-8B); a batch's
# logits take at most 256 MiB in float32.
MAX_ROWS = 64
MAX_TOKENS, MAX_TOKENS_GPU = 16_384, 65_536
MAX_LOGITS = 1 << 26
# Generation settings that can change a greedy answer, with the values at which they do not.
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
# Maps the rows' new tokens to whether each row has enough.
Stop = Callable[[list[list[int]]], list[bool]]


def end_ids(model: Any, *more: int | None) -> list[int]:
    """Ids that end an answer: those of the model's generation settings, and ``more``."""
    named = getattr(model.generation_config, "eos_token_id", None)
    ids = {*(named if isinstance(named, list) else [named]), *more}
    return sorted(number for number in ids if number is not None)


def batches(lengths: Sequence[int], vocabulary: int = 1) -> Iterator[list[int]]:
    """Indices in batches of similar lengths within the limits above; longest first, ties by index."""
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


def write_answers(
    loaded: LoadedModel, chat: ChatPrompts, prompts: Sequence[list[int]], max_new_tokens: int
) -> Iterator[tuple[int, Output, bool]]:
    """For each prompt, in batches: its index, the greedy output, and whether that reached the limit of tokens.

    The limit is ``max_new_tokens`` or what the prompts of a batch leave of the context. An output also ends at one of
    the ends of turns of ``chat``.
    """
    ends = end_ids(loaded.model, *chat.end_ids)
    for places in batches([len(ids) + max_new_tokens for ids in prompts]):
        asked = [prompts[place] for place in places]
        most = min(max_new_tokens, loaded.context_length - max(map(len, asked)))
        for place, ids in zip(places, generate(loaded, asked, most, ends), strict=True):
            yield place, chat.outputs.read(prompts[place], ids), len(ids) >= most


def generate(
    loaded: LoadedModel, prompts: Sequence[list[int]], max_new_tokens: int, ends: list[int], stop: Stop | None = None
) -> list[list[int]]:
    """Greedy continuations without their end tokens.

    The prompts' common prefix is computed once, and finished rows leave the batch. After each token ``stop`` gets the
    new tokens of all unfinished rows and says which of them are complete. Another engine gets the ``texts`` of ``stop``
    if it has any, and otherwise does not stop early. Transformers itself generates for a base whose generation settings
    change which token is taken (such as a repetition penalty).
    """
    if loaded.writer is not None:
        return loaded.writer.write(prompts, max_new_tokens, ends, getattr(stop, "texts", ()))
    from ft_assets.workers.packs.isolation.forward import runs_apart

    if runs_apart(loaded.model):
        return _without_padding(loaded.model, prompts, max_new_tokens, ends, stop)
    if takes_the_likeliest(loaded.model.generation_config):
        return _Greedy(loaded.model, ends, stop).write(prompts, max_new_tokens)
    return _generate(loaded.model, prompts, max_new_tokens, ends, stop)


def takes_the_likeliest(settings: Any) -> bool:
    """Whether no generation setting of the model changes which token a greedy answer takes."""
    return all(getattr(settings, name, None) in plain for name, plain in _PLAIN.items())


class _Greedy:
    """Generates one batch of answers."""

    def __init__(self, model: Any, ends: list[int], stop: Stop | None) -> None:
        self._model, self._ends, self._stop = model, frozenset(ends), stop
        self._last = last_logits(model, 1)

    def write(self, prompts: Sequence[list[int]], max_new_tokens: int) -> list[list[int]]:
        """The answers, in the prompts' order."""
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
        """Append each row's token to its answer, unless it is an end token. Returns the unfinished rows, whose answers
        are equally long."""
        rows = [row for row, token in enumerate(tokens) if token not in self._ends]
        for row in rows:
            answers[row].append(tokens[row])
        stopped = self._stop([answers[row] for row in rows]) if self._stop and rows else [False] * len(rows)
        return [row for row, ended in zip(rows, stopped, strict=True) if not ended]

    def _read(self, prompts: Sequence[list[int]]) -> tuple[Any, Any, Any]:
        """The prompts' last logits [rows, 1, vocabulary], their cache, and the mask [rows, tokens] of real tokens."""
        import torch
        from transformers import DynamicCache

        device = self._model.device
        shared = self._shared(prompts)
        cache = DynamicCache(config=self._model.config.get_text_config())
        if shared:
            trunk = torch.tensor([prompts[0][:shared]], device=device)
            self._model(input_ids=trunk, past_key_values=cache, use_cache=True, **self._last)
            cache.batch_repeat_interleave(len(prompts))
        ids, mask = _left_padded([prompt[shared:] for prompt in prompts])
        mask = torch.cat([mask.new_ones(len(prompts), shared), mask], dim=1)
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
        """Number of prefix tokens to compute once for all rows, 0 if that does not pay.

        Padding would follow them, and a sliding window would count it.
        """
        from ft_assets.workers.evals.tree_scoring import longest_tree

        shared = min(common_prefix(min(prompts), max(prompts)), min(len(prompt) for prompt in prompts) - 1)
        if len(prompts) == 1 or shared < MIN_TRUNK or longest_tree(self._model) is not None:
            return 0
        return shared


def _left_padded(rows: Sequence[list[int]], padding: int = 0) -> tuple[Any, Any]:
    """The rows with padding before them, [rows, tokens], and the mask of their own tokens."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    own = [torch.tensor(row) for row in rows]
    ids = pad_sequence(own, batch_first=True, padding_value=padding, padding_side="left")
    return ids, pad_sequence([torch.ones_like(row) for row in own], batch_first=True, padding_side="left")


def _without_padding(
    model: Any, prompts: Sequence[list[int]], max_new_tokens: int, ends: list[int], stop: Stop | None
) -> list[list[int]]:
    """Prompts of one length at a time: padding before a prompt would enter a recurrent layer's state."""
    answers: dict[int, list[int]] = {}
    for length in sorted({len(prompt) for prompt in prompts}):
        places = [place for place, prompt in enumerate(prompts) if len(prompt) == length]
        found = _generate(model, [prompts[place] for place in places], max_new_tokens, ends, stop)
        answers.update(zip(places, found, strict=True))
    return [answers[place] for place in range(len(prompts))]


def write_out(
    loaded: LoadedModel, prompt: list[int], max_new_tokens: int, ends: list[int], tell: Callable[[int], None]
) -> None:
    """Tell each token of one greedy continuation as soon as it is chosen, an end token too; what ``tell`` raises ends
    it."""
    _generate(loaded.model, [prompt], max_new_tokens, ends, streamer=_Told(tell))


class _Told:
    """A streamer of Transformers: it gets the prompt, and then each token."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell, self._asked = tell, False

    def put(self, tokens: Any) -> None:
        if self._asked:
            self._tell(int(tokens))
        self._asked = True

    def end(self) -> None:
        """Of the continuation."""


def _generate(
    model: Any,
    prompts: Sequence[list[int]],
    max_new_tokens: int,
    ends: list[int],
    stop: Stop | None = None,
    streamer: _Told | None = None,
) -> list[list[int]]:
    """The same by Transformers' own loop, with all of the base's generation settings except sampling. After ``stop``, a
    row's tokens are padding."""
    import torch
    from transformers import GenerationConfig, StoppingCriteriaList

    padding = ends[0] if ends else 0
    ids, mask = _left_padded(prompts, padding)
    width = ids.shape[1]
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
            streamer=streamer,
        )
    answers = []
    for new in out[:, width:].tolist():
        end = next((place for place, token in enumerate(new) if token in ends), len(new))
        answers.append(new[:end])
    return answers
