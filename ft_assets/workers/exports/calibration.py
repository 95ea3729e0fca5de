"""Rows that calibrate a quantisation: from the train split, never from data that judges the model."""

from contextlib import suppress

from ft_assets.settings.catalogue.forms import FORMS
from ft_assets.workers.base_models.chain import unchanged_input
from ft_assets.workers.evals.holdout_rows import ChatRows, TextRows, choose, form_of, read_split
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadData
from ft_resources.worker_context import WorkContext

ROWS, TOKENS = 256, 1024
"""Most rows, and tokens of each from its start. GPTQ's authors took 128 texts of 2,048 tokens."""
_SEED = 17


def calibration_rows(context: WorkContext) -> list[list[int]]:
    """Token ids of rows of the input ``dataset``'s train split, rendered for the input ``exported``.

    Rows that the template cannot render are left out, as in training. Raises BadData if none is left.
    """
    dataset, model = unchanged_input(context, "dataset"), context.folder("exported")
    tokenizer = ChatTokenizer.load(model)
    rows = TextRows(tokenizer, TOKENS) if FORMS[form_of(dataset)].plain else ChatRows(model, tokenizer, None)
    found = []
    for record in choose(read_split(dataset, "train", context.scratch), ROWS, _SEED):
        with suppress(BadData):
            found.append(rows.encode(record).ids[:TOKENS])
    if not found:
        raise BadData(
            "no row of the train split can be shown to the model",
            where=str(dataset.address),
            remedy="Export it as merged, fp8-dynamic or GGUF, which need no calibration.",
        )
    return found
