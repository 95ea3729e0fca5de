"""Scores of texts by a transformers text classifier."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ft_assets.workers.datasets.screening.text_model import TextModel
from ft_assets.workers.suites.classifiers import read_facts, require_labels
from ft_resources.errors import BadBase

# Further digits depend on the batch and the device.
_DECIMALS = 4


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
    import torch
    from transformers import AutoModelForSequenceClassification

    facts = read_facts(folder, str(folder))
    require_labels(facts.labels, labels, str(folder))
    columns = [facts.labels.index(label) for label in labels]
    classifier = TextModel.load(folder, AutoModelForSequenceClassification)
    place = {text: index for index, text in enumerate(dict.fromkeys(texts))}
    scores = np.zeros(len(place), np.float32)
    windows, owners = classifier.windows(list(place))
    for chosen, output, _ in classifier.outputs(windows, batch):
        logits = output.logits.float()
        found = torch.sigmoid(logits) if facts.multi_label else torch.softmax(logits, dim=-1)
        if not bool(torch.isfinite(found).all()):
            raise BadBase(
                "the classifier gave a score that is not a number",
                where=classifier.where,
                remedy="Its weights are damaged or overflow; use another classifier.",
            )
        highest = found.cpu().numpy()[:, columns].max(axis=1)
        np.maximum.at(scores, [owners[index] for index in chosen], highest)
    return np.round(scores[[place[text] for text in texts]], _DECIMALS).astype(np.float32)
