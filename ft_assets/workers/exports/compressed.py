"""A merged model with quantised linear layers in the format compressed-tensors, for vLLM; made by llm-compressor."""

import json
import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from ft_assets.settings.catalogue.families import has_experts
from ft_assets.workers.base_models.chain import unchanged_input
from ft_assets.workers.evals.model import load_model
from ft_assets.workers.exports.calibration import calibration_rows
from ft_assets.workers.exports.card import quantized_card
from ft_assets.workers.exports.gguf_equality import changed
from ft_assets.workers.exports.holdout_texts import HoldoutTexts
from ft_assets.workers.exports.tools import ToolFailed, run_tool
from ft_assets.workers.libraries import UNUSED, absent, keep_offline
from ft_assets.workers.training.kept_weights import WEIGHTS_AT
from ft_resources.environment import LLM_COMPRESSOR
from ft_resources.errors import BadBase, Misconfigured
from ft_resources.worker_context import WorkContext, WorkResult

_SCRIPT = Path(__file__).with_name("compressor.py")
_MADE = ("config.json", "generation_config.json")
_MERGED = "Export it as merged, or as GGUF."


def make_compressed(context: WorkContext) -> WorkResult:
    """Quantise the linear layers of the input ``exported`` to ``kind`` by ``method``. All methods but rounding are
    calibrated on rows of the train split.

    Writes the weights with their configuration, the tokenizer and template of training, licences, and a card. Facts:
    ``changed`` (what quantising changed; see ``gguf_equality.py``), ``calibrated_on`` (rows), ``format``, ``bytes``,
    and the merged model's ``architecture`` and ``parameters``. Raises Misconfigured without llm-compressor or the
    reader of its weights, and BadBase for a model that it does not quantise.
    """
    python = _python(context.params["format"])
    adapter, exported = unchanged_input(context, "adapter"), unchanged_input(context, "exported")
    model, output, kind = context.folder("exported"), context.output, context.params["kind"]
    method = context.params.get("method", "GPTQ")
    calibrated = method != "rounding"
    _require_dense(model, str(exported.address))
    keep_offline()
    rows = calibration_rows(context) if calibrated else []
    written, made = context.scratch / "calibration.json", context.scratch / "made"
    written.write_text(json.dumps(rows))
    context.progress("quantising")
    try:
        run_tool([python, str(_SCRIPT), str(model), str(written), str(made), method, kind])
    except ToolFailed as error:
        raise BadBase(
            f"the model could not be quantised as {kind}; llm-compressor said:\n{error}",
            where=str(exported.address),
            remedy=_MERGED,
        ) from error
    for path in sorted(made.iterdir()):
        if path.suffix == ".safetensors" or path.name in (*_MADE, "model.safetensors.index.json"):
            shutil.copyfile(path, output / path.name)
    for name in exported.manifest.files:
        if not name.endswith((".safetensors", ".safetensors.index.json")) and not (output / name).exists():
            shutil.copyfile(model / name, output / name)
    context.progress("comparing")
    with absent(*UNUSED):
        loaded = load_model(output, base_folder=model, device="cpu").model
        lost = changed(loaded, load_model(model, device="cpu").model, HoldoutTexts.read(context, model).places)
    named = f"{method} {kind}" if calibrated else kind
    card = quantized_card(adapter, exported, kind=named, tool=context.params["tool"])
    (output / "README.md").write_text(card, encoding="utf-8")
    return WorkResult(
        folder=output,
        facts={
            **{name: exported.facts[name] for name in ("architecture", "parameters") if name in exported.facts},
            "format": context.params["format"],
            "bytes": sum(path.stat().st_size for path in output.glob("*.safetensors")),
            "calibrated_on": len(rows),
            "changed": lost.facts(),
            WEIGHTS_AT: "",
        },
    )


def _python(wanted: str) -> str:
    """The Python that has llm-compressor. Raises Misconfigured if it is missing, or the reader of its weights here."""
    named = os.environ.get(LLM_COMPRESSOR, "")
    if not named or not os.access(named, os.X_OK):
        raise Misconfigured(
            f"there is no program {named}" if named else f"this worker has no llm-compressor, which makes {wanted}",
            where=f"environment variable {LLM_COMPRESSOR} of the worker",
            remedy="Install llmcompressor in an environment of its own, and name its Python "
            "(docs/how-to/gptq.md says how; on a cluster, in the worker's image).",
        )
    if find_spec("compressed_tensors") is None:
        raise Misconfigured(
            "the package compressed-tensors is not installed; an evaluation needs it to read these weights",
            where="the worker's Python environment",
            remedy="Install the platform with the extra compressed.",
        )
    return named


def _require_dense(model: Path, where: str) -> None:
    """Raise BadBase for a mixture of experts. llm-compressor stores each expert apart, and Transformers, which an
    evaluation loads it with, has all of a layer in one tensor."""
    if has_experts(json.loads((model / "config.json").read_bytes())):
        raise BadBase("a mixture of experts is not quantised by llm-compressor here", where=where, remedy=_MERGED)
