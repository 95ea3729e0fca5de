"""The work of ``merged_model``: an adapter merged into its base's weights, proved equal, as a folder for any engine."""

import shutil
from pathlib import Path

from ft_assets.workers.base_models.chain import lay_out_merged, unchanged_input
from ft_assets.workers.base_models.contents import TEMPLATE, TOKENIZER_FILES, inspect_base
from ft_assets.workers.evals.holdout import HoldoutScorer
from ft_assets.workers.evals.holdout_rows import form_of
from ft_assets.workers.exports.card import merged_card
from ft_assets.workers.exports.equality import Equality, measure, require_equal
from ft_assets.workers.libraries import UNUSED, absent, keep_offline
from ft_assets.workers.training.kept_weights import WEIGHTS_AT
from ft_resources.artifacts import Artifact
from ft_resources.worker_context import WorkContext, WorkResult

ROWS = 8
"""Texts of the holdout whose logits are compared."""
_TOKENS = 256
"""Tokens of each text from its start: with a vocabulary of 128,000 the logits of one are then 131 MB."""
_SEED = 17


def merge_model(context: WorkContext) -> WorkResult:
    """Merge the input ``adapter`` into the input ``base``, and compare their logits on texts of ``dataset``'s holdout.

    Writes the model's own files as Transformers, vLLM and others load them: the weights in the base's dtype and shards,
    configuration, tokenizer, the adapter's chat template, licences, and a card. The same inputs give the same bytes.
    Facts: ``equality`` (see ``equality.py``), ``architecture`` and ``parameters``. Raises BadBase for an adapter that
    cannot be merged, and for a merged model whose answers differ from those of base and adapter.
    """
    adapter, base = unchanged_input(context, "adapter"), unchanged_input(context, "base")
    lay_out_merged(context, adapter, base)
    _take_tokenizer(adapter, context.output, context.scratch / "adapter")
    facts = inspect_base(context.output, str(adapter.address), template_given=True)
    keep_offline()
    with absent(*UNUSED):
        equality = _compare(context, adapter)
    require_equal(equality, str(adapter.address))
    (context.output / "README.md").write_text(merged_card(adapter, base), encoding="utf-8")
    return WorkResult(
        folder=context.output,
        facts={
            "architecture": facts.architecture,
            "parameters": facts.parameters,
            "equality": equality.facts(),
            WEIGHTS_AT: "",
        },
    )


def _take_tokenizer(adapter: Artifact, output: Path, scratch: Path) -> None:
    """The adapter's tokenizer, which is the base's with the settings and the one template of training."""
    for name in (*TOKENIZER_FILES, TEMPLATE):
        if name in adapter.manifest.files:
            # A new file: the one in its place may be a link into the store.
            (output / name).unlink(missing_ok=True)
            shutil.copyfile(adapter.path(name, scratch), output / name)


def _compare(context: WorkContext, adapter: Artifact) -> Equality:
    base, dataset = context.folder("base"), unchanged_input(context, "dataset")
    length = _context_length(base)
    scorer = HoldoutScorer(
        base,
        chat_template=adapter.read(TEMPLATE).decode() if TEMPLATE in adapter.manifest.files else None,
        context_length=length,
        form=form_of(dataset),
    )
    holdout = dataset.path("holdout.parquet", context.scratch)
    rows, _ = scorer.read(holdout, max_samples=ROWS, seed=_SEED)
    return measure(
        base,
        context.folder("adapter"),
        context.output,
        [row.ids[:_TOKENS] for row in rows],
        context.scratch,
        report=context.progress,
    )


def _context_length(base: Path) -> int:
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(base, trust_remote_code=False, local_files_only=True)
    return int(config.get_text_config().max_position_embeddings)
