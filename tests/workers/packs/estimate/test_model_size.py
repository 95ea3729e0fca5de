"""Parameters by kind: by hand, and as Transformers and PEFT count them."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.settings.catalogue.composites import COMPOSITES
from ft_assets.settings.gpus import CATALOGUE
from ft_assets.settings.recipe.training import LoraSettings
from ft_assets.workers.model_size.families import FAMILIES
from ft_assets.workers.model_size.memory import peak_memory
from ft_assets.workers.model_size.model_size import doubt_about, read_architecture, rough
from ft_assets.workers.model_size.time import Work, training_seconds
from tests.workers.packs.estimate.made import LLAMA_3_8B, llama, setup


def test_llama_3_8b_by_hand() -> None:
    found = llama(**LLAMA_3_8B)
    assert found.by_kind == {
        "embedding": 128256 * 4096,
        "attention": 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024),
        "mlp": 32 * 3 * 4096 * 14336,
        "norm": 65 * 4096,
        "head": 128256 * 4096,
    }
    # As its card says.
    assert found.parameters == 8_030_261_248
    # r = 16: 16 (inputs + outputs) for each of seven matrices in 32 layers.
    sides = 2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 14336)
    assert found.adapter_parameters(16, "all-linear") == 32 * 16 * sides
    assert found.adapter_parameters(16, ["q_proj", "v_proj"]) == 32 * 16 * (4096 + 4096 + 4096 + 1024)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_as_many_parameters_as_transformers_makes(family: str) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from ft_assets.workers.training.model import with_adapters

    sizes: dict[str, Any] = {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 96,
        "vocab_size": 100,
        "max_position_embeddings": 128,
        "pad_token_id": 0,
    }
    experts = {"num_experts_per_tok": 2}
    more: dict[str, dict[str, Any]] = {
        "mixtral": {**experts, "num_local_experts": 4},
        "qwen2_moe": {**experts, "num_experts": 4, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48},
        "qwen3_moe": {**experts, "num_experts": 4, "moe_intermediate_size": 32},
    }
    if family == "gpt2":
        sizes = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100, "n_positions": 128}
    sizes |= more.get(family, {})
    config = AutoConfig.for_model(family, **sizes)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
        found = read_architecture(config.to_dict())
        assert found is not None
        assert not found.rough
        assert found.parameters == sum(parameter.numel() for parameter in model.parameters())
        adapted = with_adapters(model, LoraSettings(rank=4, alpha=8))
    trained = sum(parameter.numel() for parameter in adapted.parameters() if parameter.requires_grad)
    assert found.adapter_parameters(4, "all-linear") == trained


def test_tied_embeddings_are_told_by_the_weights_where_the_config_is_silent() -> None:
    config = {name: value for name, value in LLAMA_3_8B.items() if name != "tie_word_embeddings"}
    untied = read_architecture(config, 8_030_261_248)
    tied = read_architecture(config, 8_030_261_248 - 128256 * 4096)
    assert untied is not None
    assert tied is not None
    assert (untied.tied, tied.tied) == (False, True)
    assert not tied.rough


def test_a_config_that_its_weights_contradict_is_not_believed() -> None:
    found = read_architecture(LLAMA_3_8B, 7_000_000_000)
    assert found is not None
    assert found.rough


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "never-heard-of", "vocab_size": 32000},
        {"model_type": "llama"},
        {**LLAMA_3_8B, "num_attention_heads": 0},
        {**LLAMA_3_8B, "hidden_size": "wide"},
        {**LLAMA_3_8B, "hidden_size": -4096},
    ],
)
def test_what_is_not_understood_is_a_rough_stand_in_of_the_right_size_or_nothing(config: dict[str, Any]) -> None:
    found = read_architecture(config, 7_000_000_000)
    assert found is not None
    assert found.rough
    assert found.parameters == pytest.approx(7e9, rel=0.15)
    assert read_architecture(config) is None


@pytest.mark.parametrize("parameters", [1, 260_000, 10**8, 10**9, 7 * 10**10, 4 * 10**11])
def test_rough_stand_ins_exist_for_every_size(parameters: int) -> None:
    found = rough(parameters, vocabulary=256)
    assert found.rough
    if parameters > 10**8:
        assert found.matrices == pytest.approx(parameters, rel=0.1)


def test_the_text_part_of_a_multimodal_config_counts() -> None:
    found = read_architecture({"model_type": "vision", "text_config": LLAMA_3_8B})
    assert found is not None
    assert found.parameters == 8_030_261_248


def test_of_a_composite_the_text_part_is_counted_and_the_rest_is_frozen() -> None:
    # config.json and parameters of google/gemma-3-4b-it, which leaves out what its class has as defaults.
    text = {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34}
    config = {"model_type": "gemma3", "text_config": text, "vision_config": {"hidden_size": 1152}}
    found = read_architecture(config, 4_300_079_472)
    assert found is not None
    assert not found.rough
    assert found.parameters == 3_880_263_168
    assert found.frozen == 4_300_079_472 - 3_880_263_168
    for variant, each in (("full", 4), ("lora", 2)):
        asked = setup(variant=variant, precision="bf16", rank=1, tokens=1, gpus=1)
        more = peak_memory(found, asked).weights - peak_memory(replace(found, frozen=0), asked).weights
        assert more == each * found.frozen


@pytest.mark.parametrize(
    "kind", ["gemma3", "internvl", "llava", "mistral3", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe"]
)
def test_a_composite_has_as_many_parameters_in_its_text_part_as_transformers_makes(kind: str) -> None:
    import torch

    from tests.workers.training.families import FAMILIES as TRIED

    with torch.device("meta"):
        model = TRIED[kind].model()
    whole = sum(weight.numel() for weight in model.parameters())
    text = {*model.get_decoder().parameters(), *model.get_output_embeddings().parameters()}
    found = read_architecture(model.config.to_dict(), whole)
    assert found is not None
    assert (found.parameters, found.frozen) == (sum(each.numel() for each in text), whole - found.parameters)


def test_the_defaults_of_a_composite_are_those_of_transformers() -> None:
    from transformers import CONFIG_MAPPING

    for kind, settings in COMPOSITES.items():
        default = CONFIG_MAPPING[kind]().get_text_config()
        text = default if kind != "mistral3" else CONFIG_MAPPING["mistral"]()
        assert {name: getattr(text, name) for name in settings} == settings


def test_a_mixture_of_experts_computes_with_fewer_parameters_than_it_has() -> None:
    found = llama(
        model_type="mixtral", num_local_experts=8, num_experts_per_tok=2, intermediate_size=96, num_hidden_layers=1
    )
    experts = 3 * 64 * 96
    assert found.matrices - found.active == 6 * experts
    assert found.intermediate == 2 * 96


MIXTRAL: dict[str, Any] = {**LLAMA_3_8B, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}


@pytest.mark.parametrize(
    ("change", "doubt"),
    [
        ({"num_experts_per_tok": 9}, "num_experts_per_tok is 9, of 8 experts"),
        ({"num_experts_per_tok": 0}, "num_experts_per_tok is 0, which is not a valid number"),
        ({"num_experts_per_tok": -2}, "num_experts_per_tok is -2, which is not a valid number"),
        ({"num_experts_per_tok": 1.5}, "num_experts_per_tok is 1.5, which is not a valid number"),
        ({"num_local_experts": -8}, "num_local_experts is -8, which is not a valid number"),
        ({"num_local_experts": 10**400}, "num_local_experts is 1000"),
        ({"hidden_size": 0}, "hidden_size is 0, which is not a valid number"),
        ({"hidden_size": True}, "hidden_size is True, which is not a valid number"),
        ({"hidden_size": None}, "there is no hidden_size"),
        ({"hidden_size": 2**31}, "it describes 4e+20 parameters"),
        ({"vocab_size": 0}, "vocab_size is 0, which is not a valid number"),
        ({"num_key_value_heads": 5}, "32 attention heads cannot share 5 keys"),
        ({"num_attention_heads": 8192, "num_key_value_heads": 8192}, "head_dim is 0, which is not a valid number"),
    ],
)
def test_settings_that_make_no_sense_are_not_believed_and_the_reason_is_told(
    change: dict[str, Any], doubt: str
) -> None:
    config = {**MIXTRAL, **change}
    assert read_architecture(config) is None
    assert doubt_about(config).startswith(f"config.json: {doubt}")
    stand_in = read_architecture(config, 8_000_000_000)
    assert stand_in is not None
    assert (stand_in.rough, stand_in.doubt) == (True, doubt_about(config, 8_000_000_000))
    assert stand_in.parameters == pytest.approx(8e9, rel=0.1)


def test_a_config_of_another_size_than_the_weights_is_not_believed() -> None:
    assert doubt_about(LLAMA_3_8B, 8_030_261_248) == ""
    assert doubt_about({"model_type": "newest"}, 8_030_261_248) == ""
    assert doubt_about(LLAMA_3_8B, 70_000_000_000) == (
        "config.json describes 8,030,261,248 parameters and the weights hold 70,000,000,000"
    )


def test_experts_that_the_config_leaves_out_are_as_many_as_transformers_takes() -> None:
    from transformers import AutoConfig

    for family, settings in FAMILIES.items():
        if settings.active:
            assert AutoConfig.for_model(family).num_experts_per_tok == settings.active


@given(
    config=st.dictionaries(
        st.sampled_from([*MIXTRAL, "num_experts", "head_dim", "moe_intermediate_size", "text_config", "n_embd"]),
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.sampled_from([1, 8])),
    ),
    family=st.sampled_from([*FAMILIES, "newest"]),
    parameters=st.one_of(st.none(), st.integers(1, 10**13)),
    variant=st.sampled_from(["full", "lora", "qlora"]),
    whole=st.booleans(),
)
def test_no_config_gives_a_negative_or_absurd_estimate(
    config: dict[str, Any], family: str, parameters: int | None, variant: Any, whole: bool
) -> None:
    found = read_architecture({**(MIXTRAL if whole else {}), **config, "model_type": family}, parameters)
    if found is None:
        return
    assert 0 < found.active <= found.matrices
    if parameters is not None and parameters > 10**6:
        assert found.parameters == pytest.approx(parameters, rel=0.5)
    made = setup(variant=variant, precision="bf16", gpus=1)
    memory = peak_memory(found, made).total
    assert 0 < memory.lower <= memory.expected <= memory.upper < 1e18
    work = Work(tokens=1000, steps=1, learned=0.25, document_length=100.0)
    seconds = training_seconds(found, made, work, CATALOGUE["H100"])
    assert 0 < seconds.lower <= seconds.expected <= seconds.upper < 1e9
