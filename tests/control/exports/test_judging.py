"""An export is gated again, held against the figures of its adapter, and shown as it stands."""

from collections.abc import Sequence

import pytest

from ft_assets.control import identity
from ft_assets.control.exports.judging import SAME, judge_export, require_as_good
from ft_assets.control.exports.progress import ExportProgress, progress_of
from ft_assets.records.tombstones import Subject, delete
from ft_assets.settings.catalogue.exports import EXPORTS
from ft_assets.settings.catalogue.gates import GATES
from ft_assets.workers.evals.verdict import Verdict
from ft_resources.artifacts import Address, Artifact, InputRef
from ft_resources.attempts import Attempt
from ft_resources.canonical import canonical_json
from ft_resources.errors import Deleted, GateRejected, MissingInput, UserError
from ft_resources.outcomes import Outcome
from ft_resources.work import WorkRequest
from tests.control.lines.promotable import RECIPE, Promotable
from tests.made import leave
from tests.workers.evals.results import SUITE, Results, losses
from tests.workers.evals.world import World

HALF = [1.0, 0.0] * 500


def answers(right: Sequence[float], request: WorkRequest) -> dict[str, bytes]:
    """The files of an evaluation whose candidate answers as ``right`` says."""
    scores = list(right)
    results = Results(
        suites={SUITE: (scores, scores)}, correct=([0.0] * len(scores), scores), losses=losses(len(scores))
    )
    evidence = results.evidence().model_copy(update={"fingerprint": request.address.fingerprint})
    return {"report.json": canonical_json(evidence.model_dump(mode="json")), **results.files()}


def artifact_at(world: World, ref: InputRef) -> Artifact:
    return world.artifacts.get(Address.parse(ref.address))


def judged(line: Promotable, right: Sequence[float], before: Sequence[float] = HALF) -> tuple[list[Verdict], Artifact]:
    """The verdicts on an export that answers as ``right`` says, of an adapter that answers as ``before`` says."""
    adapter, world = line.adapter(right=before, gates={}), line.world
    exported = world.publish("merged_model", {"model.safetensors": b"1"}, inputs={"adapter": adapter})
    own = artifact_at(world, adapter.manifest.inputs["eval_report"])
    report = line.report(exported, artifact_at(world, own.manifest.inputs["dataset"]), right)
    return judge_export(world.artifacts, adapter, exported, report), exported


def of(verdicts: list[Verdict], name: str) -> Verdict:
    (found,) = [each for each in verdicts if each.gate == name]
    return found


@pytest.mark.parametrize(
    ("lost", "drop"),
    [
        pytest.param(0, 0.0, id="it answers as its adapter"),
        pytest.param(200, 0.5, id="it loses what the recipe allows"),
    ],
)
def test_an_export_that_answers_nearly_as_its_adapter_is_given_out(line: Promotable, lost: int, drop: float) -> None:
    right = [0.0 if lost and number % lost == 0 else each for number, each in enumerate(HALF)]
    verdicts, exported = judged(line, right)
    assert [each.gate for each in verdicts] == [*GATES, SAME]
    same = of(verdicts, SAME)
    assert same.outcome == "pass"
    assert {each["n"] for each in same.numbers.values()} == {1000}
    assert max(each["drop_points"] for each in same.numbers.values()) == pytest.approx(drop)
    require_as_good(verdicts, str(exported.address))


def test_an_export_that_forgot_is_rejected_like_any_candidate_with_its_reasons(line: Promotable) -> None:
    verdicts, exported = judged(line, WORSE)
    assert of(verdicts, SAME).outcome == "fail"
    assert of(verdicts, "task_gain").outcome == "pass", "against its base it gains, and still it is worse than it was"
    with pytest.raises(GateRejected, match=r"as_the_adapter: fail, .* 50.0% → 40.0% on 1000 items"):
        require_as_good(verdicts, str(exported.address))
    adapter = of_lora(line)
    evaluated(line, adapter, made(line, adapter), WORSE)
    (found,) = progress_of(line.world.artifacts, adapter, [])
    assert found.state == "rejected"
    assert "as_the_adapter: fail" in found.detail


def test_few_items_without_a_loss_do_not_hold_an_export_back(line: Promotable) -> None:
    """Eight items can prove no drop small, and nothing got worse: that both are one model is proved by their logits."""
    few = [1.0, 0.0] * 4
    verdicts, _ = judged(line, few, before=few)
    assert of(verdicts, SAME).outcome == "pass"
    assert "too few to decide" in of(verdicts, SAME).reason


def test_a_report_about_another_model_rejects(line: Promotable) -> None:
    adapter, world = line.adapter(gates={}), line.world
    exported = world.publish("merged_model", {"model.safetensors": b"1"}, inputs={"adapter": adapter})
    own = artifact_at(world, adapter.manifest.inputs["eval_report"])
    verdicts = judge_export(world.artifacts, adapter, exported, own)
    with pytest.raises(GateRejected, match="belongs to another checkpoint"):
        require_as_good(verdicts, str(exported.address))


def test_a_whole_model_is_taken_as_it_is_and_nothing_is_exported_of_what_was_deleted(line: Promotable) -> None:
    adapter = line.adapter(gates={})
    with pytest.raises(UserError, match="already a complete model"):
        identity.export_request(line.world.artifacts, adapter, EXPORTS["merged"])
    (found,) = progress_of(line.world.artifacts, adapter, ["merged"])
    assert (found.state, "already a complete model" in found.detail) == ("failed", True)
    delete(line.world.store, Subject.adapter(adapter.address), actor="ann", reason="wrong data")
    with pytest.raises(Deleted, match="wrong data"):
        identity.export_request(line.world.artifacts, adapter, EXPORTS["merged"])


def of_lora(line: Promotable, engine: str = "transformers", **params: object) -> Artifact:
    """An accepted adapter with PEFT's files, which can be merged; its evaluation with ``engine`` can be repeated."""
    world, plain = line.world, line.adapter(gates={})
    own = artifact_at(world, plain.manifest.inputs["eval_report"])
    inputs = {name: artifact_at(world, ref) for name, ref in own.manifest.inputs.items()}
    request = world.request("eval_report", inputs=inputs, params={"evaluation": {"engine": engine}})
    report = leave(world.artifacts, request, answers(HALF, request))
    given = {"eval_report": report, "base": line.base, "checkpoint": inputs["checkpoint"]}
    params = {**plain.manifest.identity["params"], **params}
    return world.publish("adapter", {"adapter_config.json": b"{}"}, inputs=given, params=params)


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
def test_an_asset_holds_the_formats_that_the_recipe_asks_for_and_of_several_one_must_be_named(
    world, judged_well, exports, asset, asked
) -> None:
    line = Promotable.make(world, recipe={"exports": exports})
    assert [each.name for each in identity.asked_formats(world.artifacts, RECIPE, asset)] == asked
    if not exports:
        with pytest.raises(UserError, match="quantized_model has several formats") as found:
            identity.asked_formats(line.world.artifacts, RECIPE, "quantized_model")
        assert "ft export --format: gguf-q8_0, " in found.value.remedy


@pytest.mark.parametrize(("named", "asked"), [(None, 4 + 8), (10.0, 4 + 8), (64.0, 64.0)])
def test_a_merge_asks_for_memory_for_its_base_in_float32(world, judged_well, named, asked) -> None:
    """It had the memory of a worker without a GPU, whatever the base: a base of 7 billion parameters was killed."""
    line = Promotable.make(world, recipe={"hardware": {"memory_gib": named, "gpus": 1, "gpu_type": "H100"}})
    facts = {"parameters": 2**30}
    line.base = world.publish("base_model", {"config.json": b"{}"}, tenant="shared", params={"big": 1}, facts=facts)
    lora = of_lora(line)
    request = identity.export_request(world.artifacts, lora, EXPORTS["merged"])
    assert (request.resources.memory_gib, request.resources.gpus, request.resources.gpu_type) == (asked, 0, None)


WORSE = [0.0 if number % 10 == 0 else right for number, right in enumerate(HALF)]


def made(line: Promotable, adapter: Artifact, name: str = "merged") -> Artifact:
    request = identity.export_request(line.world.artifacts, adapter, EXPORTS[name])
    return leave(line.world.artifacts, request, {"model.safetensors": name.encode()})


def evaluated(line: Promotable, adapter: Artifact, export: Artifact, right: Sequence[float]) -> Artifact:
    request = identity.reevaluation_request(line.world.artifacts, adapter, export)
    return leave(line.world.artifacts, request, answers(right, request))


def begun(line: Promotable, request: WorkRequest) -> Attempt:
    """A worker's claim of the work."""
    attempt = Attempt(line.world.store, request.address, 1)
    attempt.claim("ann")
    return attempt


def test_an_export_waits_is_made_evaluated_and_judged(line: Promotable) -> None:
    artifacts, adapter = line.world.artifacts, of_lora(line)

    def now() -> ExportProgress:
        (found,) = progress_of(artifacts, adapter, ["merged"])
        return found

    assert now() == ExportProgress(format="merged", state="waits")
    begun(line, identity.export_request(artifacts, adapter, EXPORTS["merged"]))
    assert (now().state, now().phase, now().address) == ("making", "merged_model", "")
    export = made(line, adapter)
    assert (now().state, now().address, now().report) == ("waits", str(export.address), "")
    begun(line, identity.reevaluation_request(artifacts, adapter, export))
    assert (now().state, now().phase) == ("evaluating", "eval_report")
    report = evaluated(line, adapter, export, HALF)
    assert now() == ExportProgress(
        format="merged",
        state="accepted",
        address=str(export.address),
        report=str(report.address),
        detail="all gates passed again, as good as the adapter",
    )


def test_a_worker_that_failed_says_why(line: Promotable) -> None:
    artifacts, adapter = line.world.artifacts, of_lora(line)
    made(line, adapter)
    attempt = begun(line, identity.export_request(artifacts, adapter, EXPORTS["gguf-q8_0"]))
    error = {"type": "Misconfigured", "what": "this worker has no llama.cpp", "where": "", "remedy": ""}
    attempt.record_ending(Outcome.USER_ERROR, error)
    by_format = {each.format: each for each in progress_of(artifacts, adapter, ["gguf-q8_0"])}
    assert (by_format["gguf-q8_0"].state, by_format["gguf-q8_0"].detail) == ("failed", "this worker has no llama.cpp")
    # The merged model is there, and nobody evaluated it yet.
    assert by_format["merged"].state == "waits"


def test_what_nobody_asked_for_and_nobody_made_is_not_shown(line: Promotable) -> None:
    artifacts, adapter = line.world.artifacts, of_lora(line)
    assert progress_of(artifacts, adapter, []) == []
    assert [each.format for each in progress_of(artifacts, adapter, ["gptq-w8a8"])] == ["gptq-w8a8"]
    made(line, adapter)
    assert [each.format for each in progress_of(artifacts, adapter, ["gptq-w8a8"])] == ["merged", "gptq-w8a8"]


@pytest.mark.parametrize("name", list(EXPORTS))
def test_of_an_ungated_result_nothing_is_judged(line: Promotable, name: str) -> None:
    adapter = of_lora(line, gates="none")
    for step in EXPORTS[name].steps:
        made(line, adapter, step.name)
    found = {each.format: each for each in progress_of(line.world.artifacts, adapter, [])}
    assert (found[name].state, found[name].report) == ("ungated", "")
