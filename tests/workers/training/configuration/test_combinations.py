"""Each combination that does not work is refused, with the reason and what to do instead."""

import json
from typing import Any

import pytest

from ft_assets.control.auto.combinations import COMBINATIONS, require_possible
from ft_assets.control.auto.configure import configure
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.model_size.known import known_base
from ft_resources.errors import BadRecipe
from tests.workers.packs.estimate.made import LLAMA_3_8B
from tests.workers.training.configuration.made import known, on_gpus, recipe

TEXT: dict[str, Any] = {"gates": {"task_gain": {"metric": "perplexity"}}}
MATCHES: dict[str, Any] = {"task_gain": {"metric": "exact_match"}}
ZERO_3 = {"hardware": {"sharding": "zero3"}}
START = {"warm_start": f"artifact:acme/adapter/{'0' * 64}"}
REFUSED: list[tuple[str, Recipe, str, str]] = [
    ("hardware.sharding", on_gpus(2, variant="qlora", **ZERO_3), "4 or 8 bits", "zero2"),
    ("hardware.sharding", on_gpus(2, variant="qlora", hardware={"sharding": "fsdp"}), "4 or 8 bits", "variant lora"),
    ("training.optimizer", on_gpus(2, training={"optimizer": "adafactor"}, **ZERO_3), "rows and columns", "adamw"),
    ("training.optimizer", on_gpus(2, training={"optimizer": "adamw_8bit"}, **ZERO_3), "whole blocks", "adamw"),
    (
        "training.optimizer",
        on_gpus(2, variant="full", training={"optimizer": "muon"}, **ZERO_3),
        "orthogonalises whole matrices",
        "adamw",
    ),
    ("training.compile", on_gpus(2, training={"compile": "on"}, **ZERO_3), "hooks into modules", "sharding none"),
    ("training.optimizer", recipe(training={"optimizer": "muon"}), "trains factors of them", "variant full"),
    ("training.weights", on_gpus(1, training={"weights": "bfloat16"}), "would only reduce precision", "variant full"),
    ("training.weights", recipe(variant="full", training={"weights": "bfloat16"}), "precision is fp32", "bf16"),
    (
        "training.weights",
        on_gpus(1, "V100-32", variant="full", training={"weights": "bfloat16"}),
        "precision is fp16",
        "float32",
    ),
    (
        "training.weights",
        on_gpus(1, variant="full", training={"weights": "bfloat16", "optimizer": "adafactor"}),
        "small ones vanish",
        "adamw_8bit",
    ),
    (
        "training.weights",
        on_gpus(2, variant="full", training={"weights": "bfloat16"}, hardware={"sharding": "zero2"}),
        "copies of its own",
        "fsdp",
    ),
    ("hardware.gpus", recipe(variant="full", hardware={"gpus": {"min": 2, "max": 8}}), "all weights", "lora"),
    (
        "hardware.gpus",
        recipe(hardware={"gpus": {"min": 2, "max": 8}, "sharding": "fsdp"}),
        "fsdp shards a model",
        "sharding none",
    ),
    (
        "hardware.gpus",
        recipe(hardware={"gpus": {"min": 2, "max": 8}, "context_parallel": 2}),
        "context_parallel shards a model",
        "context_parallel 1",
    ),
    ("hardware.sharding", recipe(hardware={"gpus": 1, "sharding": "zero2"}), "a single one", "sharding none"),
    ("hardware.sharding", recipe(hardware={"sharding": "zero1"}), "has none", "sharding none"),
    ("hardware.sharding", on_gpus(8, hardware={"sharding": "hsdp"}), "several nodes", "sharding none"),
    ("training.precision", on_gpus(2, "V100-32", **ZERO_3), "one scale for all gradients", "sharding none"),
    ("training.precision", recipe(training={"precision": "fp16"}), "on a CPU", "fp32"),
    ("training.offload", recipe(training={"offload": "on"}), "this training has no GPU", "Leave offload out"),
    ("training.precision", recipe(training={"precision": "fp8"}), "emulation is slower", "fp32"),
    ("training.precision", on_gpus(1, training={"precision": "fp8"}), "A100-80 cannot multiply", "H100"),
    ("training.precision", on_gpus(1, "H100", variant="qlora", training={"precision": "fp8"}), "unpacked", "lora"),
    (
        "training.precision",
        on_gpus(2, "H100", training={"precision": "fp8"}, hardware={"sharding": "fsdp"}),
        "whose weights fsdp divides",
        "sharding none",
    ),
    ("training.precision", on_gpus(1, "H100", method="dpo", training={"precision": "fp8"}), "order of sums", "orpo"),
    (
        "training.precision",
        on_gpus(1, "H100", training={"precision": "fp8", "compile": "off"}),
        "takes longer than it saves",
        "compile on",
    ),
    (
        "training.keep_best",
        on_gpus(
            2, variant="full", training={"keep_best": 2, **ZERO_3.get("training", {})}, hardware=ZERO_3["hardware"]
        ),
        "no process has all of them",
        "sharding none",
    ),
    (
        "training.precision",
        recipe(training={"precision": "bf16"}, hardware={"gpus": 1, "gpu_type": "T4"}),
        "T4 does not support bf16",
        "fp16",
    ),
    ("packing.overlong", recipe(packing={"overlong": "split"}), "lacks its question", "method cpt"),
    ("packing.learn", recipe(method="dpo", packing={"learn": "last_assistant"}), "whole answers", "out"),
    ("packing.learn", recipe(method="cpt", packing={"learn": "last_assistant"}), "no assistant turns", "out"),
    ("packing.end_of_turn", recipe(method="cpt", packing={"end_of_turn": ["<|user|>"]}), "no turns", "out"),
    ("packing.overlong", recipe(method="cpt", packing={"overlong": "truncate"}), "would drop it", "overlong: split"),
    ("gates.task_gain.metric", recipe(method="cpt", gates=MATCHES), "text has no answers", "perplexity"),
    (
        "gates.task_gain.metric",
        recipe(gates={"task_gain": {"metric": "preference_accuracy"}}),
        "sft does not use pairs",
        "such as dpo or orpo",
    ),
    ("training.warm_start", recipe(variant="full", training=START), "variant full has none", "base: artifact:"),
    ("lora.init", recipe(lora={"init": "pissa"}, training=START), "already has its initial values", "Remove either"),
    (
        "sweep.parameters",
        recipe(training=START, sweep={"search": "grid", "parameters": {"lora.rank": [8, 16]}}),
        "has a fixed shape, so lora.rank cannot be swept",
        "training.learning_rate",
    ),
    (
        "hardware.context_parallel",
        on_gpus(4, method="dpo", hardware={"context_parallel": 2}),
        "dpo compares whole answers",
        "sft or cpt",
    ),
    (
        "hardware.context_parallel",
        on_gpus(4, packing={"mode": "apart"}, hardware={"context_parallel": 2}),
        "packing.mode is apart",
        "Remove either",
    ),
    (
        "training.compile",
        on_gpus(4, training={"compile": "on"}, hardware={"context_parallel": 2}),
        "exchange tokens for heads inside each layer",
        "Remove either",
    ),
    (
        "training.global_batch_size",
        on_gpus(8, training={"global_batch_size": 6}, hardware={"context_parallel": 2}),
        "between 4 groups of 2 GPUs",
        "count as one",
    ),
    ("new_tokens", recipe(method="cpt", new_tokens=["zq"], **TEXT), "no embedding rows", "(artifact:"),
    (
        "new_tokens",
        recipe(variant="qlora", new_tokens=["zq"]),
        "a qlora adapter is served as",
        "method cpt, variant full",
    ),
    (
        "new_tokens",
        recipe(variant="full", new_tokens=["zq"]),
        "large amounts of text, which sft does not provide",
        "method cpt, variant full",
    ),
    (
        "variant",
        recipe(variant="full", lora={"use_rslora": True}),
        "lora.use_rslora applies to adapters",
        "variant lora",
    ),
    (
        "lora.lora_plus_ratio",
        recipe(lora={"lora_plus_ratio": 16.0}, training={"optimizer": "adafactor"}),
        "two learning rates for AdamW",
        "optimizer adamw",
    ),
    ("lora.init", recipe(variant="qlora", lora={"init": "pissa"}), "only quantized ones", "variant lora"),
    ("lora.init", recipe(lora={"init": "pissa", "use_dora": True}), "a second one", "either init or use_dora"),
    ("lora.dropout", recipe(lora={"init": "pissa", "dropout": 0.1}), "at random", "Remove dropout"),
    ("hardware.sharding", on_gpus(2, lora={"init": "pissa"}, **ZERO_3), "singular values", "none or auto"),
    (
        "hardware.sharding",
        on_gpus(2, lora={"use_dora": True}, hardware={"sharding": "fsdp"}),
        "lengths",
        "none or auto",
    ),
    (
        "evaluation.engine",
        recipe(lora={"use_dora": True}, evaluation={"engine": "vllm"}),
        "vLLM does not serve",
        "transformers",
    ),
    (
        "evaluation.engine",
        recipe(lora={"init": "pissa", "rank": 257}, evaluation={"engine": "vllm"}),
        "saved with 514",
        "a smaller rank",
    ),
    ("preference.loss", recipe(method="orpo", preference={"loss": "sigmoid_norm"}), "a single loss", "dpo"),
    ("training.global_batch_size", on_gpus(4, training={"global_batch_size": 6}), "between 4 GPUs", "auto"),
    (
        "training.global_batch_size",
        on_gpus(4, training={"global_batch_size": 12, "micro_batch_size": 2}),
        "4 GPUs with 2 windows each",
        "multiple",
    ),
    (
        "training.global_batch_size",
        on_gpus(4, training={"global_batch_size": 12}, hardware={"nodes": 2}),
        "between 8 GPUs on 2 nodes",
        "multiple",
    ),
]


@pytest.mark.parametrize(("where", "made", "reason", "instead"), REFUSED)
def test_a_recipe_that_cannot_work_is_refused_by_itself(where: str, made: Recipe, reason: str, instead: str) -> None:
    with pytest.raises(BadRecipe) as caught:
        require_possible(configure(made, None).recipe, None, "recipe.yaml")
    assert caught.value.where == f"recipe.yaml, {where}"
    assert reason in caught.value.what
    assert instead in caught.value.remedy


def test_the_gpus_that_share_a_window_divide_the_gpus() -> None:
    with pytest.raises(BadRecipe, match="context_parallel 4 does not divide gpus 6"):
        on_gpus(6, hardware={"context_parallel": 4})


EXPERTS = {"model_type": "gpt_oss", "num_local_experts": 32}
ON_BASES: list[tuple[Recipe, dict[str, Any], str]] = [
    (
        recipe(packing={"mode": "packed"}),
        {"model_type": "mamba2"},
        "cannot share a row, because it has state-space layers",
    ),
    (on_gpus(4, hardware={"context_parallel": 2}), {"model_type": "mamba2"}, "of this base run apart: state-space"),
    (on_gpus(6, hardware={"context_parallel": 3}), LLAMA_3_8B, "8 key/value heads are not divisible by 3"),
    (on_gpus(2, **ZERO_3), EXPERTS, "zero3 loses parts of the gradients"),
    (recipe(lora={"dropout": 0.1}), EXPERTS, "experts have no dropout"),
    (recipe(variant="qlora", lora={"use_dora": True}), EXPERTS, "experts have no use_dora"),
    (recipe(lora={"init": "pissa"}), {"model_type": "qwen3_moe", "num_experts": 128}, "experts have no init"),
    (
        on_gpus(1, "H100", training={"precision": "fp8"}),
        {**LLAMA_3_8B, "hidden_size": 1024, "intermediate_size": 4096},
        "1,024 and 4,096 wide",
    ),
    (recipe(lora={"target_modules": ["q_prj", "v_proj"]}), LLAMA_3_8B, r"no module 'q_prj'; did you mean 'q_proj'\?"),
]


@pytest.mark.parametrize(("made", "config", "reason"), ON_BASES)
def test_what_a_base_cannot_do_is_refused_by_its_config_alone(
    made: Recipe, config: dict[str, Any], reason: str
) -> None:
    alone = configure(made, None).recipe
    require_possible(alone, None)
    with pytest.raises(BadRecipe, match=reason):
        require_possible(alone, known_base(json.dumps(config).encode()))


@pytest.mark.parametrize(
    ("made", "config"),
    [
        (recipe(lora={"dropout": 0.1, "target_modules": ["q_proj"]}), EXPERTS),
        (recipe(variant="full", lora={"dropout": 0.1}, packing={"mode": "apart"}), EXPERTS),
        (recipe(packing={"mode": "packed"}), {"model_type": "gemma2"}),
        # Its GPU's kernels may keep documents apart.
        (on_gpus(1, packing={"mode": "packed"}), {"model_type": "mamba2"}),
        (recipe(lora={"dropout": 0.1}), {"model_type": "nemotron_h", "n_routed_experts": 8, "layers_block_type": []}),
    ],
)
def test_what_a_base_can_do_is_let_through_by_its_config(made: Recipe, config: Any) -> None:
    require_possible(configure(made, None).recipe, known_base(json.dumps(config).encode()))


@pytest.mark.parametrize("name", ["wte", "embed_out", "embed_in", "transformer.wpe"])
def test_an_embedding_or_head_of_another_family_is_refused_too(name: str) -> None:
    made = recipe(lora={"target_modules": ["q_proj", name]})
    with pytest.raises(BadRecipe, match=f"llama has no module '{name}'"):
        require_possible(configure(made, known()).recipe, known())


@pytest.mark.parametrize(
    "pair", [known(None), known(parameters=10**9)], ids=["nothing known", "architecture not known"]
)
def test_modules_of_a_base_that_is_not_understood_are_taken_on_trust(pair: Any) -> None:
    made = recipe(lora={"target_modules": ["odd_proj"]})
    require_possible(configure(made, pair).recipe, pair)


@pytest.mark.parametrize(
    ("pair", "why"),
    [
        (known({**LLAMA_3_8B, "hidden_size": 4104, "intermediate_size": 14344}), "multiples of 16"),
        (known(parameters=10**9), "compile is off"),
    ],
    ids=["odd", "not compiled by auto"],
)
def test_8_bit_floats_are_refused_where_they_would_be_slower_than_bf16(pair: Any, why: str) -> None:
    made = on_gpus(1, "H100", training={"precision": "fp8"})
    with pytest.raises(BadRecipe, match=why):
        require_possible(configure(made, pair).recipe, pair)


@pytest.mark.parametrize(
    "made",
    [
        on_gpus(1, "H100", training={"precision": "fp8"}),
        on_gpus(8, "L40S", training={"precision": "fp8"}),
        on_gpus(1, None, training={"precision": "fp8", "compile": "on"}),
        on_gpus(1, "H200", variant="full", training={"precision": "fp8", "weights": "bfloat16"}),
        recipe(),
        recipe(method="cpt", packing={"overlong": "split"}, gates={"task_gain": {"metric": "perplexity"}}),
        recipe(lora={"target_modules": ["q_proj", "lm_head", "model.layers.0.self_attn.k_proj"]}),
        recipe(variant="full", lora={"target_modules": ["nothing"]}),
        recipe(method="cpt", variant="full", new_tokens=["zq"], **TEXT),
        recipe(method="dpo", preference={"loss": "sigmoid_norm"}),
        recipe(lora={"use_rslora": True, "lora_plus_ratio": 16.0}),
        on_gpus(8, lora={"init": "pissa"}),
        on_gpus(8, variant="qlora", lora={"use_dora": True, "use_rslora": True, "dropout": 0.1}),
        recipe(method="orpo", gates={"task_gain": {"metric": "preference_accuracy"}}),
        on_gpus(2, variant="qlora", hardware={"sharding": "zero2"}),
        on_gpus(2, variant="full", **ZERO_3),
        on_gpus(1, variant="full", hardware={"nodes": 2, "sharding": "zero3"}),
        recipe(hardware={"gpus": 1, "gpu_type": "T4"}, training={"precision": "fp16"}),
        on_gpus(8, variant="qlora", training={"global_batch_size": 2}, hardware={"context_parallel": 4}),
        on_gpus(8, method="cpt", hardware={"context_parallel": 8}, **TEXT),
    ],
)
def test_what_works_is_let_through(made: Recipe) -> None:
    require_possible(configure(made, known()).recipe, known())


def test_every_combination_is_reached_by_a_test() -> None:
    reached = set()
    for _, made, _, _ in REFUSED:
        settled = configure(made, None).recipe
        reached |= {id(one) for one in COMBINATIONS if one.found(settled, None)}
        refusals = METHODS[settled.method].all_refusals
        reached |= {id(one) for one in refusals if one.found(settled, settled.method)}
    for made, config, _ in ON_BASES:
        base = known_base(json.dumps(config).encode())
        reached |= {id(one) for one in COMBINATIONS if one.found(configure(made, None).recipe, base)}
    every = {id(one) for one in COMBINATIONS} | {id(one) for each in METHODS.values() for one in each.all_refusals}
    assert reached == every
