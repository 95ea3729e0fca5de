"""Scores of texts by a transformers text classifier; runs in the worker, on a GPU if there is one."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ft_assets.workers.base_models.weights import require_every_weight
from ft_assets.workers.suites.classifiers import ClassifierFacts, read_facts, require_labels
from ft_resources.errors import BadBase

# Windows longer than classifiers were trained on cost more and are less accurate; models with less context get less.
_MAX_WINDOW = 512
_MIN_WINDOW = 16
# Consecutive windows overlap by a quarter, so that one of them contains a sentence at a border as a whole.
_OVERLAP = 4
# Further digits depend on the batch and the device.
_DECIMALS = 4
# Their position embeddings begin after the padding token's index.
_OFFSET_POSITIONS = ("roberta", "xlm-roberta", "camembert", "xlm-roberta-xl", "longformer", "mpnet", "data2vec-text")


def classify(texts: Sequence[str], folder: Path, labels: tuple[str, ...], batch: int = 32) -> npt.NDArray[np.float32]:
    """For each text the highest probability of any of ``labels``: float32 [n], rounded to four decimals.

    Nothing is truncated: a text longer than a window is scored in windows that overlap by a quarter. The highest score
    counts, as one bad paragraph makes a bad example. Probabilities are a softmax over the labels, or a sigmoid of each
    if the model's ``problem_type`` says that several can apply. An empty text scores 0. Equal texts are scored once.
    Windows go through the model in order of length, ``batch`` at a time, in float32.

    Raises:
        UserError: for a label that the model does not have.
        BadBase: if weights are missing, the tokenizer does not fit the model, or a score is not a number.
    """
    facts = read_facts(folder, str(folder))
    require_labels(facts.labels, labels, str(folder))
    columns = [facts.labels.index(label) for label in labels]
    classifier = _load(folder, facts)
    place = {text: index for index, text in enumerate(dict.fromkeys(texts))}
    scores = np.zeros(len(place), np.float32)
    windows, owners = _windows(classifier, list(place))
    order = sorted(range(len(windows)), key=lambda index: (len(windows[index]), windows[index]))
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        found = _probabilities(classifier, [windows[index] for index in chosen])[:, columns].max(axis=1)
        np.maximum.at(scores, [owners[index] for index in chosen], found)
    return np.round(scores[[place[text] for text in texts]], _DECIMALS).astype(np.float32)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Classifier:
    model: Any
    tokenizer: Any
    window: int
    multi_label: bool
    where: str


def _load(folder: Path, facts: ClassifierFacts) -> _Classifier:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    loaded: Any = AutoModelForSequenceClassification.from_pretrained(
        folder,
        dtype=torch.float32,
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        output_loading_info=True,
    )
    model, loading = loaded
    require_every_weight(loading, str(folder))
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    if tokenizer.pad_token_id is None:
        if tokenizer.eos_token is None:
            raise BadBase(
                "the tokenizer has neither a padding nor an end-of-text token",
                where=str(folder),
                remedy="Set pad_token in the classifier's tokenizer_config.json.",
            )
        tokenizer.pad_token = tokenizer.eos_token
    # Decoders search for the last token before the padding, and read the padding token from the configuration.
    if model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id
    tokenizer.padding_side = "right"
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return _Classifier(
        model=model.to(device).eval().requires_grad_(False),
        tokenizer=tokenizer,
        window=_window(model.config, tokenizer, str(folder)),
        multi_label=facts.multi_label,
        where=str(folder),
    )


def _window(config: Any, tokenizer: Any, where: str) -> int:
    """The most tokens that the model takes at once, special ones included."""
    positions = getattr(config.get_text_config(), "max_position_embeddings", None) or _MAX_WINDOW
    if config.model_type in _OFFSET_POSITIONS:
        positions -= (config.pad_token_id or 0) + 1
    window = int(min(_MAX_WINDOW, positions, tokenizer.model_max_length))
    if window < _MIN_WINDOW:
        remedy = "Correct max_position_embeddings or model_max_length, or use another classifier."
        raise BadBase(f"the classifier reads only {window} tokens at once", where=where, remedy=remedy)
    return window


def _windows(classifier: _Classifier, texts: list[str]) -> tuple[list[list[int]], list[int]]:
    """Token ids of all windows, special tokens included, and the text that each belongs to."""
    tokenizer, window = classifier.tokenizer, classifier.window
    room = window - tokenizer.num_special_tokens_to_add()
    windows: list[list[int]] = []
    owners: list[int] = []
    for start in range(0, len(texts), 1000):
        pieces = texts[start : start + 1000]
        # The part of a long text beyond the window is returned as further windows.
        encoded = tokenizer(
            pieces,
            truncation=True,
            max_length=window,
            stride=room // _OVERLAP,
            return_overflowing_tokens=True,
            return_attention_mask=False,
        )
        for ids, owner in zip(encoded["input_ids"], encoded["overflow_to_sample_mapping"], strict=True):
            if ids and pieces[owner]:
                windows.append(ids)
                owners.append(start + owner)
    return windows, owners


def _probabilities(classifier: _Classifier, windows: list[list[int]]) -> npt.NDArray[np.float32]:
    """float32 [windows, labels]. Raises BadBase if a value is not finite."""
    import torch

    longest = max(map(len, windows))
    padding = classifier.tokenizer.pad_token_id
    ids = torch.tensor([window + [padding] * (longest - len(window)) for window in windows])
    mask = torch.tensor([[1] * len(window) + [0] * (longest - len(window)) for window in windows])
    try:
        with torch.inference_mode():
            device = classifier.model.device
            logits = classifier.model(input_ids=ids.to(device), attention_mask=mask.to(device)).logits.float()
    except IndexError as error:
        remedy = "Save the model together with the tokenizer it was trained with."
        raise BadBase(
            "the tokenizer has tokens that the model does not know", where=classifier.where, remedy=remedy
        ) from error
    scores = torch.sigmoid(logits) if classifier.multi_label else torch.softmax(logits, dim=-1)
    if not bool(torch.isfinite(scores).all()):
        raise BadBase(
            "the classifier gave a score that is not a number",
            where=classifier.where,
            remedy="Its weights are damaged or overflow; use another classifier.",
        )
    return np.asarray(scores.cpu().numpy(), np.float32)
