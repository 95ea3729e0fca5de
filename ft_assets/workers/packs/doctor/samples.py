"""Some documents in readable form: decoded, with learned tokens and control tokens marked."""

from typing import Any

import numpy as np

from ft_assets.workers.packs.doctor.chunks import chunk
from ft_assets.workers.packs.doctor.second_rendering import spread
from ft_assets.workers.packs.format import Pack
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer

SAMPLES = 3
_TOKENS = 2000


def samples(pack: Pack, tokenizer: ChatTokenizer) -> list[dict[str, Any]]:
    """``SAMPLES`` documents, spread over the pack, each as runs of tokens with equal marks.

    ``{"id", "row", "tokens", "learned", "shown", "runs": [{"text", "learned", "control"}]}``; long documents show only
    their first tokens.
    """
    return [_sample(pack, tokenizer, window) for window in spread(len(pack), SAMPLES)]


def _sample(pack: Pack, tokenizer: ChatTokenizer, window: int) -> dict[str, Any]:
    view = chunk(pack, range(window, window + 1))
    place = view.document(0)
    shown = slice(place.start, min(place.stop, place.start + _TOKENS))
    ids, learned = view.ids[shown], view.learned[shown]
    control = np.isin(ids, list(tokenizer.control_ids))
    # A control token is a run by itself.
    edges = np.flatnonzero(np.append(True, (np.diff(learned.astype(np.int8)) != 0) | control[1:] | control[:-1]))
    # Tokenizers decode a piece alone differently (they drop its first space), so prefixes are decoded.
    decode = tokenizer.tokenizer.decode
    texts = [decode(ids[:end].tolist(), skip_special_tokens=False) for end in [*edges[1:].tolist(), len(ids)]]
    runs, before = [], 0
    for start, text in zip(edges.tolist(), texts, strict=True):
        runs.append({"text": text[before:], "learned": bool(learned[start]), "control": bool(control[start])})
        before = max(before, len(text))
    example = int(view.examples[0])
    return {
        "id": pack.example_id(example),
        "row": pack.example_row(example),
        "tokens": place.stop - place.start,
        "learned": int(view.learned[place].sum()),
        "shown": len(ids),
        "runs": runs,
    }
