"""A small transformers model that reads texts in windows: a classifier or an encoder; on a GPU if there is one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ft_assets.workers.base_models.weights import require_every_weight
from ft_resources.errors import BadBase

# Windows longer than these models were trained on cost more and are less accurate; models with less context get less.
_MAX_WINDOW = 512
_MIN_WINDOW = 16
# Consecutive windows overlap by a quarter, so that one of them contains a sentence at a border as a whole.
_OVERLAP = 4
_TEXTS_AT_ONCE = 1000
# The position embeddings of these begin after the padding token's index.
_OFFSET_POSITIONS = ("roberta", "xlm-roberta", "camembert", "xlm-roberta-xl", "longformer", "mpnet", "data2vec-text")


@dataclass(frozen=True, kw_only=True, slots=True)
class TextModel:
    """A loaded model; ``where`` is its folder, for errors."""

    model: Any
    tokenizer: Any
    window: int
    where: str

    @classmethod
    def load(cls, folder: Path, kind: Any, **options: Any) -> Self:
        """The model in ``folder`` as ``kind``, an ``AutoModel…`` class, in float32; ``options`` are that class's.

        Raises BadBase if weights are missing, or the tokenizer cannot pad or does not fit.
        """
        import torch
        from transformers import AutoTokenizer

        where = str(folder)
        model, loading = kind.from_pretrained(
            folder,
            dtype=torch.float32,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
            **options,
        )
        require_every_weight(loading, where)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        if tokenizer.pad_token_id is None:
            if tokenizer.eos_token is None:
                raise BadBase(
                    "the tokenizer has neither a padding nor an end-of-text token",
                    where=where,
                    remedy="Set pad_token in the model's tokenizer_config.json.",
                )
            tokenizer.pad_token = tokenizer.eos_token
        # Decoders search for the last token before the padding, and read the padding token from the configuration.
        if model.config.pad_token_id is None:
            model.config.pad_token_id = tokenizer.pad_token_id
        tokenizer.padding_side = "right"
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return cls(
            model=model.to(device).eval().requires_grad_(False),
            tokenizer=tokenizer,
            window=_window(model.config, tokenizer, where),
            where=where,
        )

    def windows(self, texts: Sequence[str]) -> tuple[list[list[int]], list[int]]:
        """Token ids of all windows, special tokens included, and the index of the text that each belongs to. An empty
        text has none."""
        room = self.window - self.tokenizer.num_special_tokens_to_add()
        windows: list[list[int]] = []
        owners: list[int] = []
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            pieces = list(texts[start : start + _TEXTS_AT_ONCE])
            # The part of a long text beyond the window is returned as further windows.
            encoded = self.tokenizer(
                pieces,
                truncation=True,
                max_length=self.window,
                stride=room // _OVERLAP,
                return_overflowing_tokens=True,
                return_attention_mask=False,
            )
            for ids, owner in zip(encoded["input_ids"], encoded["overflow_to_sample_mapping"], strict=True):
                if ids and pieces[owner]:
                    windows.append(ids)
                    owners.append(start + owner)
        return windows, owners

    def outputs(self, windows: Sequence[list[int]], batch: int) -> Iterator[tuple[list[int], Any, Any]]:
        """(indices of windows, the model's output for them, their mask [windows, tokens]), in order of length."""
        order = sorted(range(len(windows)), key=lambda index: (len(windows[index]), windows[index]))
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            yield chosen, *self._output([windows[index] for index in chosen])

    def _output(self, windows: Sequence[list[int]]) -> tuple[Any, Any]:
        import torch

        longest, padding = max(map(len, windows)), self.tokenizer.pad_token_id
        ids = torch.tensor([window + [padding] * (longest - len(window)) for window in windows])
        mask = torch.tensor([[1] * len(window) + [0] * (longest - len(window)) for window in windows])
        ids, mask = ids.to(self.model.device), mask.to(self.model.device)
        try:
            with torch.inference_mode():
                return self.model(input_ids=ids, attention_mask=mask), mask
        except IndexError as error:
            remedy = "Save the model together with the tokenizer it was trained with."
            raise BadBase(
                "the tokenizer has tokens that the model does not know", where=self.where, remedy=remedy
            ) from error


def _window(config: Any, tokenizer: Any, where: str) -> int:
    """The most tokens that the model takes at once, special ones included."""
    positions = getattr(config.get_text_config(), "max_position_embeddings", None) or _MAX_WINDOW
    if config.model_type in _OFFSET_POSITIONS:
        positions -= (config.pad_token_id or 0) + 1
    window = int(min(_MAX_WINDOW, positions, tokenizer.model_max_length))
    if window < _MIN_WINDOW:
        remedy = "Correct max_position_embeddings or model_max_length, or use another model."
        raise BadBase(f"the model reads only {window} tokens at once", where=where, remedy=remedy)
    return window
