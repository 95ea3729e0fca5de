"""What a recipe's exports would take: disk by arithmetic, time as earlier ones took, and else in words that it is
unknown."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pytest

from ft_assets.cli.estimate import rows_of
from ft_assets.control.planning.estimate import estimate_training
from ft_assets.control.planning.exports import ExportEstimate, estimate_exports
from ft_assets.control.planning.known_base import KnownBase
from ft_assets.control.registry.register import register_recipe
from ft_assets.settings.catalogue.exports import EXPORTS
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.tenants import TenantsFile
from ft_assets.workers.model_size.model_size import read_architecture
from ft_resources.artifacts import Artifact
from ft_resources.attempts import PLACE, Attempt
from ft_resources.outcomes import Outcome
from tests.control.submissions.estimate_world import DATASET
from tests.control.submissions.estimate_world import World as Pair
from tests.workers.evals.world import World
from tests.workers.packs.estimate.made import LLAMA_3_8B

PLAIN: dict[str, Any] = {"key": "tiny.v1", "base": "hub:acme/tiny@main"}
STORED = 16_060_522_496  # 8,030,261,248 weights in bfloat16
MATRICES = 6_979_321_856  # of the layers; embedding, head and norms are 1,050,939,392


def recipe(*exports: str) -> Recipe:
    return Recipe.model_validate({**PLAIN, "exports": exports})


def known(digest: str = "") -> KnownBase:
    model = read_architecture(LLAMA_3_8B, 8_030_261_248)
    return KnownBase(
        architecture=model, context=8192, weight_bytes=STORED, digest=digest, source="the mirror", file=lambda _: None
    )


def estimated(world: World, wanted: Recipe, base: KnownBase) -> dict[str, ExportEstimate]:
    found = estimate_exports(world.artifacts, "acme.things.v1", wanted, base)
    assert [each.format for each in found] == list(wanted.exports)
    return {each.format: each for each in found}


def worked(
    world: World, asset: str, base: Artifact, seconds: float, params: Mapping[str, Any], content: str = "1"
) -> None:
    """An artifact that took a worker so long."""
    adapter = world.publish("adapter", {"adapter": content.encode()}, params={"number": content})
    made = world.publish(asset, {"made": b"1"}, inputs={"base": base, "adapter": adapter}, params=params)
    attempt = Attempt(world.store, made.address, 1)
    attempt.claim("ann")
    place = {"started_at": 1000.0, "ended_at": 1000.0 + seconds, "cause": "worker", "evidence": {}}
    world.store.put_json(f"{attempt.path}/{PLACE}", place)
    attempt.record_ending(Outcome.DONE)


def test_without_exports_there_is_no_estimate_and_without_earlier_ones_or_a_base_it_is_said_to_be_unknown(
    world,
) -> None:
    assert estimate_exports(world.artifacts, "acme.things.v1", recipe(), known()) == ()
    nothing = KnownBase(
        architecture=None, context=None, weight_bytes=0, digest="", source="nothing", file=lambda _: None
    )
    found = estimated(world, recipe("merged"), nothing)["merged"]
    assert (found.disk, found.disk_from) == (None, "too little is known about the base (nothing)")
    assert (found.seconds, found.seconds_from) == (None, "the base model is not prepared yet")
    again = estimated(world, recipe("gguf-q8_0"), known("00"))["gguf-q8_0"]
    assert (again.seconds, again.seconds_from) == (None, "acme has not exported merged on this base yet")


def test_disk_is_that_of_the_base_and_of_so_many_bits_a_weight(world: World) -> None:
    found = estimated(world, recipe(*EXPORTS), known())
    expected = {name: each.disk.expected for name, each in found.items() if each.disk}
    assert expected["merged"] == STORED
    assert expected["gguf-q8_0"] - STORED == pytest.approx(8_030_261_248 * 8.5 / 8)
    wide = STORED - 2 * MATRICES
    assert expected["gptq-w8a8"] - STORED == pytest.approx(MATRICES + wide, rel=1e-3)
    assert expected["gptq-w4a16"] - STORED == pytest.approx(MATRICES * 4.125 / 8 + wide, rel=1e-3)
    assert (expected["awq-w4a16"], expected["fp8-dynamic"]) == (expected["gptq-w4a16"], expected["gptq-w8a8"])
    assert expected.keys() == EXPORTS.keys()


def test_time_is_that_of_earlier_exports_on_the_base_and_of_an_evaluation_with_the_same_settings(world: World) -> None:
    base, other = world.base(), world.base(seed=1)
    wanted = recipe("merged", "gguf-q8_0", "gguf-q4_k_m")
    settings = {"evaluation": wanted.evaluation.model_dump(mode="json")}
    for number, seconds in enumerate((1.0, 10.0, 20.0, 30.0)):
        worked(world, "merged_model", base, seconds, {}, str(number))
    worked(world, "merged_model", other, 500.0, {})
    worked(world, "quantized_model", base, 40.0, dict(EXPORTS["gguf-q8_0"].settings))
    before = estimated(world, wanted, known(base.digest))
    assert before["merged"].seconds_from == "acme has not evaluated with these settings on this base yet"
    # Which weights of a training were evaluated makes no difference; other settings do.
    worked(world, "eval_report", base, 100.0, {"evaluation": {**settings["evaluation"], "candidate": "last"}})
    worked(world, "eval_report", base, 900.0, {"evaluation": {**settings["evaluation"], "seed": 5}})
    found = estimated(world, wanted, known(base.digest))
    assert found["merged"].seconds is not None
    assert 110.0 <= found["merged"].seconds <= 120.0
    assert found["gguf-q8_0"].seconds == found["merged"].seconds + 40.0
    assert "40 s to make gguf-q8_0, 100 s to evaluate" in found["gguf-q8_0"].seconds_from
    assert found["gguf-q4_k_m"].seconds_from == "acme has not exported gguf-q4_k_m on this base yet"


def test_ft_estimate_shows_exports_after_all_else_with_what_each_number_stands_on(pair_world: Pair) -> None:
    path = pair_world.project.recipe("exporting.v1", exports=["merged", "gptq-w8a8"], training={"max_steps": 2})
    key = register_recipe(pair_world.store, path, actor="ann").key
    pair_world.prepare(key)
    found = estimate_training(pair_world.artifacts, TenantsFile(), DATASET, key)
    assert [each["format"] for each in json.loads(json.dumps(asdict(found)))["exports"]] == ["merged", "gptq-w8a8"]
    shown = {name: (value, source) for name, value, source in rows_of(found)}
    assert list(shown)[-5:-3] == ["export merged", "merged in the store"]
    assert list(shown)[-3:] == ["export gptq-w8a8", "gptq-w8a8 in the store", "gptq-w8a8 is served"]
    assert shown["export merged"] == ("unknown", "acme has not exported merged on this base yet")
    assert shown["merged in the store"] == ("15.0 (15.0 to 15.0) GiB", "2 bytes per weight, as for most bases")
    assert shown["gptq-w8a8 in the store"][1].startswith("8 bits per weight of linear layers")
    assert shown["gptq-w8a8 is served"][0] == "on GPUs of compute capability 7.5 and above"
