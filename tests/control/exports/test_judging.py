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
from ft_resources.errors import Deleted, GateRejected, UserError
from tests.control.lines.promotable import Promotable
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


@pytest.mark.parametrize(("named", "asked"), [(None, 4 + 8), (10.0, 4 + 8), (64.0, 64.0)])
def test_a_merge_asks_for_memory_for_its_base_in_float32(
    world: World, judged_well: None, named: float | None, asked: float
) -> None:
    """It had the memory of a worker without a GPU, whatever the base: a base of 7 billion parameters was killed."""
    line = Promotable.make(world, recipe={"hardware": {"memory_gib": named, "gpus": 1, "gpu_type": "H100"}})
    facts = {"parameters": 2**30}
    line.base = world.publish("base_model", {"config.json": b"{}"}, tenant="shared", params={"big": 1}, facts=facts)
    adapter = line.adapter()
    report = world.artifacts.get(Address.parse(adapter.manifest.inputs["eval_report"].address))
    lora = world.publish(
        "adapter",
        {"adapter_config.json": b"{}"},
        inputs={"eval_report": report, "base": line.base},
        params=adapter.manifest.identity["params"],
    )
    request = identity.export_request(world.artifacts, lora, EXPORTS["merged"])
    assert (request.resources.memory_gib, request.resources.gpus, request.resources.gpu_type) == (asked, 0, None)
