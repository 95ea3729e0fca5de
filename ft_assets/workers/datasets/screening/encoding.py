"""Texts as vectors whose angle says how alike their meanings are, by a transformers encoder (Sentence-BERT,
arXiv:1908.10084)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ft_assets.workers.datasets.screening.text_model import TextModel
from ft_assets.workers.suites.encoders import Pooling
from ft_resources.errors import BadBase


class Encoder:
    """An encoder in ``folder``, loaded when it is first used."""

    def __init__(self, folder: Path, pooling: Pooling, batch: int = 32) -> None:
        self._folder, self._pooling, self._batch = folder, pooling, batch
        self._model: TextModel | None = None

    def encode(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Vectors of length 1 (float32 [windows, size]), and the index of the text that each belongs to (int64).

        A text longer than a window has several, which overlap by a quarter; an empty text has none. Raises BadBase if
        weights are missing, the tokenizer does not fit, or a value is not a number.
        """
        from transformers import AutoModel

        if self._model is None:
            self._model = TextModel.load(self._folder, AutoModel)
        windows, owners = self._model.windows(texts)
        vectors = np.zeros((len(windows), self._model.model.config.get_text_config().hidden_size), np.float32)
        for chosen, output, mask in self._model.outputs(windows, self._batch):
            vectors[chosen] = self._pooled(output.last_hidden_state.float(), mask).cpu().numpy()
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all():
            raise BadBase(
                "the encoder gave a value that is not a number",
                where=str(self._folder),
                remedy="Its weights are damaged or overflow; use another encoder.",
            )
        return vectors / np.maximum(lengths, 1e-9), np.array(owners, np.int64)

    def _pooled(self, states: Any, mask: Any) -> Any:
        """[windows, size] of states [windows, tokens, size]."""
        if self._pooling == "cls":
            return states[:, 0]
        weights = mask.unsqueeze(-1).to(states.dtype)
        return (states * weights).sum(1) / weights.sum(1)
