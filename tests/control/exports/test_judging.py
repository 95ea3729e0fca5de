"""An export is gated again, and held against the figures of the adapter that it was made of."""

from collections.abc import Sequence

import pytest

from ft_assets.control import identity
from ft_assets.control.exports.judging import SAME, judge_export, require_as_good
from ft_assets.records.tombstones import Subject, delete
from ft_assets.settings.catalogue.exports import EXPORTS
from ft_assets.settings.catalogue.gates import GATES
from ft_assets.workers.evals.verdict import Verdict
from ft_resources.artifacts import Address, Artifact
from ft_resources.errors import Deleted, GateRejected, MissingInput, UserError
from tests.control.lines.promotable import RECIPE, Promotable
from tests.made import leave
from tests.workers.evals.world import World

HALF = [1.0, 0.0] * 500


def judged(line: Promotable, right: Sequence[float], before: Sequence[float] = HALF) -> tuple[list[Verdict], Artifact]:
    """The verdicts on an export that answers as ``right`` says, of an adapter that answers as ``before`` says."""
    adapter, world = line.adapter(right=before), line.world
    exported = world.publish("merged_model", {"model.safetensors": b"1"}, inputs={"adapter": adapter})
    own = world.artifacts.get(Address.parse(adapter.manifest.inputs["eval_report"].address))
    dataset = world.artifacts.get(Address.parse(own.manifest.inputs["dataset"].address))
    report = line.report(exported, dataset, right)
    return judge_export(world.artifacts, adapter, exported, report), exported


def of(verdicts: list[Verdict], name: str) -> Verdict:
    (found,) = [each for each in verdicts if each.gate == name]
    return found


def test_an_export_that_answers_as_its_adapter_is_given_out(line: Promotable) -> None:
    verdicts, exported = judged(line, HALF)
    assert [each.gate for each in verdicts] == [*GATES, SAME]
    assert of(verdicts, SAME).outcome == "pass"
    assert {each["n"] for each in of(verdicts, SAME).numbers.values()} == {1000}
    require_as_good(verdicts, str(exported.address))


def test_an_export_that_forgot_is_rejected_like_any_candidate(line: Promotable) -> None:
    forgot = [0.0 if number % 10 == 0 else right for number, right in enumerate(HALF)]
    verdicts, exported = judged(line, forgot)
    assert of(verdicts, SAME).outcome == "fail"
    assert of(verdicts, "task_gain").outcome == "pass", "against its base it gains, and still it is worse than it was"
    with pytest.raises(GateRejected, match=r"as_the_adapter: fail, .* 50.0% → 40.0% on 1000 items"):
        require_as_good(verdicts, str(exported.address))


def test_a_loss_within_what_the_recipe_allows_is_no_reason(line: Promotable) -> None:
    lost = [0.0 if number % 200 == 0 else right for number, right in enumerate(HALF)]
    verdicts, _ = judged(line, lost)
    assert of(verdicts, SAME).outcome == "pass"
    drops = {each["drop_points"] for each in of(verdicts, SAME).numbers.values()}
    assert max(drops) == pytest.approx(0.5)


def test_few_items_without_a_loss_do_not_hold_an_export_back(line: Promotable) -> None:
    """Eight items can prove no drop small, and nothing got worse: that both are one model is proved by their logits."""
    few = [1.0, 0.0] * 4
    verdicts, _ = judged(line, few, before=few)
    assert of(verdicts, SAME).outcome == "pass"
    assert "too few to tell" in of(verdicts, SAME).reason


def test_a_report_about_another_model_rejects(line: Promotable) -> None:
    adapter, world = line.adapter(), line.world
    exported = world.publish("merged_model", {"model.safetensors": b"1"}, inputs={"adapter": adapter})
    own = world.artifacts.get(Address.parse(adapter.manifest.inputs["eval_report"].address))
    verdicts = judge_export(world.artifacts, adapter, exported, own)
    with pytest.raises(GateRejected, match="is about another checkpoint"):
        require_as_good(verdicts, str(exported.address))


def test_a_whole_model_is_taken_as_it_is(line: Promotable) -> None:
    adapter = line.adapter()
    with pytest.raises(UserError, match="a whole model already"):
        identity.export_request(line.world.artifacts, adapter, EXPORTS["merged"])


def test_nothing_is_exported_of_what_was_deleted(line: Promotable) -> None:
    adapter = line.adapter()
    delete(line.world.store, Subject.adapter(adapter.address), actor="ann", reason="wrong data")
    with pytest.raises(Deleted, match="wrong data"):
        identity.export_request(line.world.artifacts, adapter, EXPORTS["merged"])


def of_lora(line: Promotable, engine: str = "transformers") -> Artifact:
    """An accepted adapter with PEFT's files, which can be merged; evaluated with ``engine``."""
    world, adapter = line.world, line.adapter()
    own = world.artifacts.get(Address.parse(adapter.manifest.inputs["eval_report"].address))
    report = world.publish(
        "eval_report",
        {"report.json": b"{}"},
        inputs={name: world.artifacts.get(Address.parse(ref.address)) for name, ref in own.manifest.inputs.items()},
        params={"evaluation": {"engine": engine}},
    )
    return world.publish(
        "adapter",
        {"adapter_config.json": b"{}"},
        inputs={"eval_report": report, "base": line.base},
        params=adapter.manifest.identity["params"],
    )


def test_a_quantised_form_is_made_of_the_merged_one_and_of_that_alone(line: Promotable) -> None:
    artifacts, adapter = line.world.artifacts, of_lora(line)
    wanted = EXPORTS["gguf-q4_k_m"]
    assert [each.name for each in wanted.steps] == ["merged", "gguf-q4_k_m"]
    with pytest.raises(MissingInput, match="merged_model"):
        identity.export_request(artifacts, adapter, wanted)
    assert identity.exports_missing(artifacts, adapter, ["gguf-q4_k_m"]) == ["gguf-q4_k_m"]
    merged = leave(artifacts, identity.export_request(artifacts, adapter, EXPORTS["merged"]), {"config.json": b"{}"})
    four, eight = (identity.export_request(artifacts, adapter, EXPORTS[name]) for name in ("gguf-q4_k_m", "gguf-q8_0"))
    assert (four.asset, four.inputs["exported"]) == ("quantized_model", merged.ref)
    assert four.params == {"format": "gguf-q4_k_m", "tool": "llama.cpp", "kind": "Q4_K_M"}
    assert four.address != eight.address
    # The two are told apart where others may need them.
    requests = identity.pair_export_requests()["quantized_model"]
    assert len(requests) == sum(each.asset == "quantized_model" for each in EXPORTS.values())


def test_an_evaluation_by_another_engine_is_not_repeated_on_a_quantised_form(line: Promotable) -> None:
    artifacts, other = line.world.artifacts, of_lora(line, engine="vllm")
    with pytest.raises(UserError, match="was evaluated with vllm, and gguf-q8_0 is evaluated with Transformers only"):
        identity.export_request(artifacts, other, EXPORTS["gguf-q8_0"])
    identity.export_request(artifacts, other, EXPORTS["merged"])


@pytest.mark.parametrize(
    ("exports", "asset", "asked"),
    [
        ([], "merged_model", ["merged"]),
        (["merged"], "quantized_model", []),
        (["gguf-q8_0"], "merged_model", []),
        (["gguf-q4_k_m", "merged", "gguf-q8_0"], "quantized_model", ["gguf-q8_0", "gguf-q4_k_m"]),
    ],
)
def test_an_asset_holds_the_formats_that_the_recipe_asks_for(
    world: World, judged_well: None, exports: list[str], asset: str, asked: list[str]
) -> None:
    Promotable.make(world, recipe={"exports": exports})
    assert [each.name for each in identity.asked_formats(world.artifacts, RECIPE, asset)] == asked


def test_of_several_formats_one_must_be_named(line: Promotable) -> None:
    with pytest.raises(UserError, match="quantized_model has several formats") as found:
        identity.asked_formats(line.world.artifacts, RECIPE, "quantized_model")
    assert "ft export --format: gguf-q8_0, " in found.value.remedy


@pytest.mark.parametrize(("named", "asked"), [(None, 4 + 8), (10.0, 4 + 8), (64.0, 64.0)])
def test_a_merge_asks_for_memory_for_its_base_in_float32(
    world: World, judged_well: None, named: float | None, asked: float
) -> None:
    """It had the memory of a worker without a GPU, whatever the base: a base of 7 billion parameters was killed."""
    line = Promotable.make(world, recipe={"hardware": {"memory_gib": named, "gpus": 1, "gpu_type": "H100"}})
    facts = {"parameters": 2**30}
    line.base = world.publish("base_model", {"config.json": b"{}"}, tenant="shared", params={"big": 1}, facts=facts)
    lora = of_lora(line)
    request = identity.export_request(world.artifacts, lora, EXPORTS["merged"])
    assert (request.resources.memory_gib, request.resources.gpus, request.resources.gpu_type) == (asked, 0, None)
