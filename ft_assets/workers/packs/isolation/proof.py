"""The doctor's proof that a pack's documents do not leak: the base's architecture, at tiny random size, run on them."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from ft_assets.workers.libraries import UNUSED, absent, keep_offline
from ft_assets.workers.packs.format import Pack, Window
from ft_assets.workers.packs.isolation.comparison import Comparison
from ft_resources.errors import UserError

_ROWS, _DOCUMENTS, _CANDIDATES = 3, 4, 64
# Limits for a document and for a row; random weights show a leak on short texts, and attention costs their square.
_DOCUMENT_TOKENS, _ROW_TOKENS = 1024, 8192


def examine_isolation(config: Path, pack: Pack) -> dict[str, Any]:
    """Compare the losses of documents packed and alone, on a sample of the windows with several documents.

    ``config`` is the base's ``config.json``. Returns ``{"passed": bool, "detail": str, "figures": {…}}``; the detail
    names the example that differs most, or why documents of this base run apart. Imports torch and, from Transformers'
    architectures, only the base's.
    """
    keep_offline()
    with absent(*UNUSED):
        from ft_assets.workers.packs.isolation.choice import choose
        from ft_assets.workers.packs.isolation.guard import guard
        from ft_assets.workers.packs.isolation.leak_check import compare
        from ft_assets.workers.packs.isolation.tiny import tiny_model

        try:
            choice = choose(config.parent, max_length=pack.index.max_length)
            if choice.mode == "apart":
                return {"passed": True, "detail": f"documents run apart: {choice.why}", "figures": {}}
            model = tiny_model(json.loads(config.read_bytes()), max_length=pack.index.max_length)
            guard(model)
            total = Comparison(documents=(), tolerance=0.0)
            rows = _sample(pack)
            for row in rows:
                small = _smaller(pack.read(row), model.config.get_text_config().vocab_size)
                total += compare(model, pack, small, documents=_DOCUMENTS)
            total.require()
        except UserError as error:
            where = f"{error.where}: " if error.where else ""
            return {"passed": False, "detail": where + error.what, "figures": {}}
    if not total.documents:
        return {"passed": False, "detail": "no document with learned tokens was found to compare", "figures": {}}
    exactly = "to the bit" if total.bit_equal else f"within {total.largest_relative:.1e}, which is rounding"
    detail = f"{len(total.documents)} documents in {len(rows)} rows have the same loss packed and alone, {exactly}"
    return {"passed": True, "detail": detail, "figures": total.figures()}


def _sample(pack: Pack) -> list[list[int]]:
    """Windows with several documents, spread over the pack; if there are none, neighbouring windows as one row."""
    candidates = np.unique(np.linspace(0, max(len(pack) - 1, 0), min(len(pack), _CANDIDATES)).astype(np.int64)).tolist()
    rows = [[window] for window in candidates if len(pack.read([window]).document_lengths) > 1]
    if not rows:
        rows = [[window, window + 1] for window in candidates if window + 1 < len(pack)] or [
            [each] for each in candidates
        ]
    places = np.unique(np.linspace(0, max(len(rows) - 1, 0), min(len(rows), _ROWS)).astype(np.int64))
    return [rows[place] for place in places.tolist()]


def _smaller(window: Window, vocabulary: int) -> Window:
    """The ends of the window's first documents, with ids of a small vocabulary."""
    lengths = window.document_lengths
    kept = np.minimum(lengths, _DOCUMENT_TOKENS)
    count = max(2, int(np.searchsorted(np.cumsum(kept), _ROW_TOKENS, side="right")))
    ends = np.cumsum(lengths)[:count]
    kept = kept[:count]
    tokens = np.concatenate([np.arange(end - length, end) for end, length in zip(ends, kept, strict=True)])
    return Window(
        input_ids=(window.input_ids[tokens] % vocabulary).astype(np.int32),
        learned=window.learned[tokens],
        document_lengths=kept,
        examples=window.examples[:count],
        pieces=window.pieces[:count],
    )
