"""A merged model as one GGUF file for llama.cpp and Ollama, read by llama.cpp before it is stored."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ft_assets.settings.catalogue.forms import FORMS
from ft_assets.workers.base_models.chain import unchanged_input
from ft_assets.workers.base_models.contents import TEMPLATE
from ft_assets.workers.base_models.tensors import stored_dtype
from ft_assets.workers.evals.chat_prompts import ChatPrompts
from ft_assets.workers.evals.gguf_weights import GGUF, require_reader
from ft_assets.workers.evals.holdout_rows import ChatRows, Encoded, TextRows, answer_place, choose, read_records
from ft_assets.workers.evals.model import load_model
from ft_assets.workers.exports.card import quantized_card
from ft_assets.workers.exports.gguf_equality import (
    Rows,
    changed,
    compare,
    require_alike,
    require_same_prompts,
    tokens_of,
)
from ft_assets.workers.exports.llama_cpp import LlamaCpp, LlamaServer
from ft_assets.workers.exports.ollama import modelfile, turns_of
from ft_assets.workers.exports.pre_tokenizers import pre_tokenizer_of
from ft_assets.workers.libraries import UNUSED, absent, keep_offline
from ft_assets.workers.templates.source import own_template
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_assets.workers.training.kept_weights import WEIGHTS_AT
from ft_resources.artifacts import Artifact
from ft_resources.worker_context import WorkContext, WorkResult

MODELFILE = "Modelfile"
ROWS = 8
"""Rows of the holdout on which llama.cpp is compared."""
_TOKENS, _PLACES = 256, 4
"""First tokens of each row that count, and next tokens of each that are compared."""
_SEED = 17
_DTYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
_KEPT = ("config.json", "generation_config.json", TEMPLATE)
_LICENCES = ("LICENSE", "NOTICE", "COPYING", "USE_POLICY")


def make_gguf(context: WorkContext) -> WorkResult:
    """Convert the input ``exported`` and quantise it as ``kind`` says.

    Writes ``model.gguf``, a ``Modelfile`` for Ollama, the model's configuration and template, licences, and a card. The
    same inputs and the same llama.cpp give the same bytes. Facts: ``alike`` (llama.cpp and the evaluation, of one file)
    and ``changed`` (what quantising changed; both see ``gguf_equality.py``), ``format``, ``bytes``, and the merged
    model's ``architecture`` and ``parameters``. Raises Misconfigured without llama.cpp or the reader of its files, and
    BadBase for a model that it cannot convert, or reads otherwise than it is evaluated.
    """
    tools = LlamaCpp.of_environment()
    require_reader()
    adapter, exported = unchanged_input(context, "adapter"), unchanged_input(context, "exported")
    model, output, kind = context.folder("exported"), context.output, context.params["kind"]
    keep_offline()
    texts = _Texts.read(context, model)
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


@dataclass(frozen=True, kw_only=True)
class _Texts:
    """Rows of the holdout: as token ids with places in them, as conversations with the ids of their prompts, and as
    plain text."""

    places: Rows
    asked: Sequence[tuple[Any, list[int]]]
    plain: Sequence[str]

    @classmethod
    def read(cls, context: WorkContext, model: Path) -> "_Texts":
        dataset: Artifact = unchanged_input(context, "dataset")
        form = dataset.facts.get("form", "chat")
        records = choose(read_records(dataset.path("holdout.parquet", context.scratch), form), ROWS, _SEED)
        tokenizer = ChatTokenizer.load(model)
        if FORMS[form].plain:
            rows = TextRows(tokenizer, _TOKENS)
            found = [_places(rows.encode(each)) for each in records]
            return cls(places=found, asked=[], plain=[str(each["text"]) for each in records])
        chats, prompts = ChatRows(model, tokenizer, None), ChatPrompts(model, tokenizer, None)
        before = [each["messages"][: answer_place(each["messages"])] for each in records]
        return cls(
            places=[_places(chats.encode(each)) for each in records],
            asked=[(each, prompts.prompt(each, "holdout")) for each in before if _is_plain(each)],
            plain=[str(message["content"]) for each in records for message in each["messages"]],
        )


def _is_plain(messages: Sequence[Any]) -> bool:
    """Whether these are turns of text only: servers take tools in other words than ours."""
    return all(message["role"] in ("system", "user", "assistant") and message["content"] for message in messages)


def _places(row: Encoded) -> tuple[list[int], list[int]]:
    """The row's first tokens, and some of the places among them whose token training learns."""
    ids = row.ids[:_TOKENS]
    learned = [place for place in range(1, len(ids)) if row.learned[place]] or [len(ids) - 1]
    step = max(1, len(learned) // _PLACES)
    return ids, learned[::step][:_PLACES]


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
