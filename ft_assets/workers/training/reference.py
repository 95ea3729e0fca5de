"""Log-probabilities of a reference model as columns beside a pack, for methods such as DPO.

They are computed once, by the forward pass and in the arithmetic that the policy is trained with, and kept under the
digests of pack and reference; each training that shares both reads them (Rafailov et al., "Direct Preference
Optimization", 2023, equation 7). While the policy *is* the reference, both numbers are equal, and the loss is ln 2:
to the last bit on a CPU where the policy reads one window at a time, else up to rounding.

    <split>.reference_logps.npy   float32 [documents], in the order of the pack's documents
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ft_assets.settings.recipe.training import TrainingSettings
from ft_assets.workers.libraries import UNUSED, absent, keep_offline, require_device
from ft_assets.workers.packs.format import SPLITS, CachedFiles, Pack
from ft_assets.workers.packs.isolation.batches import MicroBatch, micro_batch, on_device
from ft_assets.workers.packs.isolation.choice import choose
from ft_assets.workers.packs.isolation.forward import token_losses
from ft_resources.artifacts import Artifact
from ft_resources.errors import BadBase, BadData, CorruptArtifact
from ft_resources.worker_context import WorkContext, WorkResult

_ADAPTER = "adapter_config.json"
_HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}
_LOGITS = 1 << 28
"""Maximum number of logits in a GPU forward pass (1 GiB in float32). Changing it changes the last bits of results."""


def reference_logps(context: WorkContext) -> WorkResult:
    """The work of ``reference_logps``: both splits of a pack, scored by the reference.

    Inputs: ``pack``; ``reference``, a model in the Hugging Face layout or a PEFT folder, and then its ``base``.
    Params: ``weights`` (how the policy's base is held, see ``training/variants``), ``precision`` of the arithmetic,
    ``device``.

    Raises BadData, naming the example, for a NaN log-probability; BadBase for an unusable reference; UserError if the
    device does not exist.
    """
    context.progress("reading inputs")
    artifact, device = context.input("pack"), context.params["device"]
    files = CachedFiles(artifact, context.cache)
    packs = {split: Pack.open(files, split) for split in SPLITS}
    context.progress("loading model")
    require_device(device)
    keep_offline()
    with absent(*(name for name in UNUSED if name != "bitsandbytes" or context.params["weights"] != "nf4")):
        model = _load(context, max(pack.index.max_length for pack in packs.values())).to(device)
    for split, pack in packs.items():

        def progress(done: int, total: int, split: str = split) -> None:
            context.progress(f"scoring {split}", done, total)

        logps = score(model, pack, half=_HALF.get(context.params["precision"]), progress=progress)
        np.save(context.output / _file(split), logps, allow_pickle=False)
    facts = {split: {"documents": pack.index.documents, "tokens": pack.index.tokens} for split, pack in packs.items()}
    return WorkResult(folder=context.output, facts=facts)


def read_reference(artifact: Artifact, cache: Path, split: str, pack: Pack) -> NDArray[np.float32]:
    """The log-probabilities of ``pack``'s documents, float32 [documents], memory-mapped.

    Document numbers are those of the pack: of window w they begin with the documents of all windows before it.
    Raises CorruptArtifact where the column does not belong to the pack.
    """
    path = artifact.path(_file(split), cache)
    logps: NDArray[np.float32] = np.load(path, mmap_mode="r", allow_pickle=False)
    if logps.dtype != np.float32 or logps.shape != (pack.index.documents,):
        raise CorruptArtifact(
            f"{_file(split)} has {logps.dtype} {list(logps.shape)}, and the pack's {split} split "
            f"{pack.index.documents} documents",
            where=str(artifact.address),
            remedy="Delete the artifact's manifest so that it is made again.",
        )
    return logps


@torch.no_grad()
def score(
    model: Any,
    pack: Pack,
    *,
    half: torch.dtype | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> NDArray[np.float32]:
    """The log-probability of the learned tokens of each document of ``pack``, float32 [documents], in nats.

    ``model`` is on the device to use and is left in evaluation mode; ``half`` is the dtype to compute in where that is
    not the weights'. On a CPU each window has its own forward pass, as sums in matrix products depend on the number of
    rows; on a GPU neighbouring windows share one with at most ``_LOGITS`` logits. Equal packs and models give equal
    bits on a CPU. Raises BadData for a log-probability that is not finite.
    """
    model.eval()
    found = np.empty(pack.index.documents, np.float32)
    filled = 0
    tokens = 0 if model.device.type == "cpu" else _LOGITS // model.config.get_text_config().vocab_size
    for first, last in passes(pack.window_lengths, tokens):
        batch = micro_batch(pack, range(first, last)).to(model.device)
        with torch.autocast(model.device.type, dtype=half, enabled=half is not None):
            logps = document_logps(model, batch).cpu().numpy()
        if not np.isfinite(logps).all():
            raise _not_finite(pack, range(first, last), logps)
        found[filled : filled + len(logps)] = logps
        filled += len(logps)
        progress(last, len(pack))
    return found


def document_logps(model: Any, batch: MicroBatch) -> torch.Tensor:
    """log p of the learned tokens of each document in ``batch``, float32 [documents], with gradients if enabled.

    Also scores the policy. Sums are in float64 and in the order of the tokens, as float32 would lose digits over
    thousands of them.
    """
    if not batch.learned:
        return torch.zeros(batch.documents, device=batch.targets.device)
    logps = -token_losses(model, batch).double()
    lengths = on_device(batch.learned_each, logps.device)
    return torch.segment_reduce(logps, "sum", lengths=lengths, unsafe=True).float()


def passes(window_lengths: NDArray[np.int64], tokens: int) -> Iterator[tuple[int, int]]:
    """Groups of neighbouring windows, one forward pass each: (first, last + 1), at most ``tokens``, or one window."""
    ends = np.cumsum(window_lengths)
    first = 0
    while first < len(ends):
        room = tokens + (int(ends[first - 1]) if first else 0)
        last = max(int(np.searchsorted(ends, room, side="right")), first + 1)
        yield first, last
        first = last


def _load(context: WorkContext, max_length: int) -> Any:
    """The reference, for rows of the policy's kind."""
    from ft_assets.workers.training.model import arithmetic_of, load_base

    reference = context.input("reference")
    adapted = _ADAPTER in reference.manifest.files
    folder = context.folder("base" if adapted else "reference")
    precision, weights = context.params["precision"], context.params["weights"]
    training, held = TrainingSettings(precision=precision), {"full": weights == "fp32", "four_bit": weights == "nf4"}
    device = context.params["device"]
    arithmetic = arithmetic_of(training, device=device, **held)
    choice = choose(folder, context.params.get("packing", "auto"), max_length=max_length, arithmetic=arithmetic)
    model = load_base(folder, training, device=device, choice=choice, **held)
    if not adapted:
        return model
    from peft import PeftModel

    try:
        return PeftModel.from_pretrained(model, str(context.folder("reference")), is_trainable=False)
    except (ValueError, RuntimeError) as error:
        raise BadBase(
            f"the reference's adapter does not fit its base ({error})",
            where=str(reference.address),
            remedy="Name the base that the adapter was trained on.",
        ) from error


def _file(split: str) -> str:
    return f"{split}.reference_logps.npy"


def _not_finite(pack: Pack, windows: range, logps: NDArray[np.float32]) -> BadData:
    window = pack.read(windows)
    document = int(np.flatnonzero(~np.isfinite(logps))[0])
    example = int(window.examples[document])
    return BadData(
        f"the reference gives document {int(window.pieces[document]) + 1} of this example a log-probability of "
        f"{logps[document]}",
        where=f"{pack.split} row {pack.example_row(example)} of the upload (id {pack.example_id(example)[:12]})",
        remedy="Use precision fp32, or another base: its weights overflow on this text.",
    )
