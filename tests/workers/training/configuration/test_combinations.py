"""Each combination that does not work is refused, with the reason and what to do instead."""

from typing import Any

import pytest

from ft_assets.control.auto.combinations import COMBINATIONS, require_possible
from ft_assets.control.auto.configure import configure
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.recipe.recipe import Recipe
from ft_resources.errors import BadRecipe
from tests.workers.training.configuration.made import known, on_gpus, recipe

TEXT: dict[str, Any] = {"gates": {"task_gain": {"metric": "perplexity"}}}
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
        "turns whole matrices",
        "adamw",
    ),
    ("training.optimizer", recipe(training={"optimizer": "muon"}), "trains factors of them", "variant full"),
    ("hardware.sharding", recipe(hardware={"gpus": 1, "sharding": "zero2"}), "a single one", "sharding none"),
    ("hardware.sharding", recipe(hardware={"sharding": "zero1"}), "has none", "sharding none"),
    ("hardware.sharding", on_gpus(8, hardware={"sharding": "hsdp"}), "several nodes", "sharding none"),
    ("training.precision", on_gpus(2, "V100-32", **ZERO_3), "one scale for all gradients", "sharding none"),
    ("training.precision", recipe(training={"precision": "fp16"}), "on a CPU", "fp32"),
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
        "T4 does not compute in bf16",
        "fp16",
    ),
    ("packing.overlong", recipe(packing={"overlong": "split"}), "lost its question", "method cpt"),
    ("packing.learn", recipe(method="dpo", packing={"learn": "last_assistant"}), "whole answers", "out"),
    ("packing.learn", recipe(method="cpt", packing={"learn": "last_assistant"}), "no assistant turns", "out"),
    ("packing.overlong", recipe(method="cpt", packing={"overlong": "truncate"}), "would drop it", "overlong split"),
    ("gates.task_gain.metric", recipe(method="cpt"), "text has no answers", "perplexity"),
    (
        "gates.task_gain.metric",
        recipe(gates={"task_gain": {"metric": "preference_accuracy"}}),
        "sft does not learn from pairs",
        "such as dpo or orpo",
    ),
    ("training.warm_start", recipe(variant="full", training=START), "variant full has none", "base: artifact:"),
    ("lora.init", recipe(lora={"init": "pissa"}, training=START), "first values already", "Leave out one"),
    (
        "sweep.parameters",
        recipe(training=START, sweep={"search": "grid", "parameters": {"lora.rank": [8, 16]}}),
        "has one shape, and lora.rank is swept",
        "training.learning_rate",
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
        "much text, which sft is not",
        "method cpt, variant full",
    ),
    ("variant", recipe(variant="full", lora={"use_rslora": True}), "lora.use_rslora is about adapters", "variant lora"),
    (
        "lora.lora_plus_ratio",
        recipe(lora={"lora_plus_ratio": 16.0}, training={"optimizer": "adafactor"}),
        "two rates for AdamW",
        "optimizer adamw",
    ),
    ("lora.init", recipe(variant="qlora", lora={"init": "pissa"}), "in 4 bits has rounded ones", "variant lora"),
    ("lora.init", recipe(lora={"init": "pissa", "use_dora": True}), "a second one", "one of init and use_dora"),
    ("lora.dropout", recipe(lora={"init": "pissa", "dropout": 0.1}), "at random", "dropout out"),
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
    ("preference.loss", recipe(method="orpo", preference={"loss": "sigmoid_norm"}), "one loss", "dpo"),
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


def test_a_module_that_the_base_lacks_is_named_with_the_nearest() -> None:
    made = recipe(lora={"target_modules": ["q_prj", "v_proj"]})
    require_possible(configure(made, None).recipe, None)
    with pytest.raises(BadRecipe, match=r"llama has no module 'q_prj'; did you mean 'q_proj'\?"):
        require_possible(configure(made, known()).recipe, known())


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
    "made",
    [
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
    *others, modules = COMBINATIONS
    assert modules.where == "lora.target_modules"
    every = {id(one) for one in others} | {id(one) for each in METHODS.values() for one in each.all_refusals}
    assert reached == every
