"""A merged model as one GGUF file for llama.cpp and Ollama, read by llama.cpp before it is stored."""

import shutil
from pathlib import Path

from ft_assets.workers.base_models.chain import unchanged_input
from ft_assets.workers.base_models.contents import TEMPLATE
from ft_assets.workers.base_models.tensors import stored_dtype
from ft_assets.workers.evals.chat_prompts import ChatPrompts
from ft_assets.workers.evals.gguf_weights import GGUF, require_reader
from ft_assets.workers.evals.model import load_model
from ft_assets.workers.exports.card import quantized_card
from ft_assets.workers.exports.gguf_equality import (
    changed,
    compare,
    require_alike,
    require_same_prompts,
    tokens_of,
)
from ft_assets.workers.exports.holdout_texts import HoldoutTexts
from ft_assets.workers.exports.llama_cpp import LlamaCpp, LlamaServer
from ft_assets.workers.exports.ollama import modelfile, turns_of
from ft_assets.workers.exports.pre_tokenizers import pre_tokenizer_of
from ft_assets.workers.libraries import UNUSED, absent, keep_offline
from ft_assets.workers.templates.source import own_template
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_assets.workers.training.kept_weights import WEIGHTS_AT
from ft_resources.worker_context import WorkContext, WorkResult

MODELFILE = "Modelfile"
_DTYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
_KEPT = ("config.json", "generation_config.json", TEMPLATE)
_LICENCES = ("LICENSE", "NOTICE", "COPYING", "USE_POLICY")


def make_gguf(context: WorkContext) -> WorkResult:
    """Convert the input ``exported`` to GGUF, quantised to ``kind``.

    Writes ``model.gguf``, a ``Modelfile`` for Ollama, the model's configuration and template, licences, and a card. The
    same inputs and the same llama.cpp give the same bytes. Facts: ``alike`` (llama.cpp and the evaluation, of one file)
    and ``changed`` (what quantising changed; both see ``gguf_equality.py``), ``format``, ``bytes``, and the merged
    model's ``architecture`` and ``parameters``. Raises Misconfigured without llama.cpp or the reader of its files, and
    BadBase for a model that llama.cpp cannot convert, or computes differently from the evaluation.
    """
    tools = LlamaCpp.of_environment()
    require_reader()
    adapter, exported = unchanged_input(context, "adapter"), unchanged_input(context, "exported")
    model, output, kind = context.folder("exported"), context.output, context.params["kind"]
    keep_offline()
    texts = HoldoutTexts.read(context, model)
    whole = context.scratch / "whole.gguf"
    context.progress("converting")
    tools.convert(
        model,
        whole,
        dtype=_DTYPES[stored_dtype(model)],
        name=str(adapter.facts["line"]),
        pre_tokenizer=pre_tokenizer_of(model, texts.plain),
    )
    context.progress("quantising")
    tools.quantise(whole, output / GGUF, kind)
    whole.unlink()
    for name in exported.manifest.files:
        if name in _KEPT or name.startswith(_LICENCES):
            shutil.copyfile(model / name, output / name)
    context.progress("comparing with llama.cpp")
    with absent(*UNUSED):
        loaded = load_model(output, base_folder=model, device="cpu").model
        with tools.serve(output / GGUF, context.scratch) as server:
            require_same_prompts(server, texts.asked)
            alike = compare(server, loaded, texts.places)
            (output / MODELFILE).write_text(_modelfile(server, model), encoding="utf-8")
        require_alike(alike, str(exported.address))
        lost = changed(loaded, load_model(model, device="cpu").model, texts.places)
    card = quantized_card(adapter, exported, kind=kind, tool=context.params["tool"])
    (output / "README.md").write_text(card, encoding="utf-8")
    return WorkResult(
        folder=output,
        facts={
            **{name: exported.facts[name] for name in ("architecture", "parameters") if name in exported.facts},
            "format": context.params["format"],
            "bytes": (output / GGUF).stat().st_size,
            "alike": alike.facts(),
            "changed": lost.facts(),
            WEIGHTS_AT: "",
        },
    )


def _modelfile(server: LlamaServer, model: Path) -> str:
    tokenizer = ChatTokenizer.load(model)
    length = int(server.ask("/props")["default_generation_settings"]["n_ctx"])
    if own_template(model) is None:
        return modelfile(file=GGUF, turns=None, stops=(), context_length=length)
    prompts = ChatPrompts(model, tokenizer, None)
    turns, bos = turns_of(prompts.template), tokenizer.named.get("bos_token") or ""
    if turns is not None and bos and tokens_of(server, ""):
        turns = turns.without(bos)
    return modelfile(file=GGUF, turns=turns, stops=prompts.ends, context_length=length)
