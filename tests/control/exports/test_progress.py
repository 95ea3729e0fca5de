"""How exports stand, from the store alone: what is being made, what is there, and its verdict."""

from collections.abc import Sequence

import pytest

from ft_assets.control import identity
from ft_assets.control.exports.progress import ExportProgress, progress_of
from ft_assets.settings.catalogue.exports import EXPORTS
from ft_resources.artifacts import Address, Artifact
from ft_resources.attempts import Attempt
from ft_resources.canonical import canonical_json
from ft_resources.outcomes import Outcome
from ft_resources.work import WorkRequest
from tests.control.lines.promotable import Promotable
from tests.made import leave
from tests.workers.evals.results import SUITE, Results, losses

HALF = [1.0, 0.0] * 500
WORSE = [0.0 if number % 10 == 0 else right for number, right in enumerate(HALF)]


def answers(right: Sequence[float], request: WorkRequest) -> dict[str, bytes]:
    """The files of an evaluation whose candidate answers as ``right`` says."""
    scores = list(right)
    results = Results(
        suites={SUITE: (scores, scores)}, correct=([0.0] * len(scores), scores), losses=losses(len(scores))
    )
    evidence = results.evidence().model_copy(update={"fingerprint": request.address.fingerprint})
    return {"report.json": canonical_json(evidence.model_dump(mode="json")), **results.files()}


def accepted(line: Promotable, **params: object) -> Artifact:
    """An adapter with PEFT's files, and an evaluation that can be repeated."""
    world, plain = line.world, line.adapter()
    own = world.artifacts.get(Address.parse(plain.manifest.inputs["eval_report"].address))
    inputs = {name: world.artifacts.get(Address.parse(ref.address)) for name, ref in own.manifest.inputs.items()}
    request = world.request("eval_report", inputs=inputs, params={"evaluation": {"engine": "transformers"}})
    report = leave(world.artifacts, request, answers(HALF, request))
    given = {"eval_report": report, "base": line.base, "checkpoint": inputs["checkpoint"]}
    params = {**plain.manifest.identity["params"], **params}
    return world.publish("adapter", {"adapter_config.json": b"{}"}, inputs=given, params=params)


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


def only(found: list[ExportProgress]) -> ExportProgress:
    (one,) = found
    return one


def test_an_export_waits_is_made_evaluated_and_judged(line: Promotable) -> None:
    artifacts, adapter = line.world.artifacts, accepted(line)

    def now() -> ExportProgress:
        return only(progress_of(artifacts, adapter, ["merged"]))

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
        detail="gated again, and as good as the adapter",
    )


def test_one_that_forgot_is_rejected_with_its_reasons(line: Promotable) -> None:
    adapter = accepted(line)
    evaluated(line, adapter, made(line, adapter), WORSE)
    found = only(progress_of(line.world.artifacts, adapter, []))
    assert found.state == "rejected"
    assert "as_the_adapter: fail" in found.detail


def test_a_worker_that_failed_says_why(line: Promotable) -> None:
    artifacts, adapter = line.world.artifacts, accepted(line)
    made(line, adapter)
    attempt = begun(line, identity.export_request(artifacts, adapter, EXPORTS["gguf-q8_0"]))
    error = {"type": "Misconfigured", "what": "this worker has no llama.cpp", "where": "", "remedy": ""}
    attempt.record_ending(Outcome.USER_ERROR, error)
    by_format = {each.format: each for each in progress_of(artifacts, adapter, ["gguf-q8_0"])}
    assert (by_format["gguf-q8_0"].state, by_format["gguf-q8_0"].detail) == ("failed", "this worker has no llama.cpp")
    # The merged model is there, and nobody evaluated it yet.
    assert by_format["merged"].state == "waits"


def test_what_nobody_asked_for_and_nobody_made_is_not_shown(line: Promotable) -> None:
    artifacts, adapter = line.world.artifacts, accepted(line)
    assert progress_of(artifacts, adapter, []) == []
    assert [each.format for each in progress_of(artifacts, adapter, ["gptq-w8a8"])] == ["gptq-w8a8"]
    made(line, adapter)
    assert [each.format for each in progress_of(artifacts, adapter, ["gptq-w8a8"])] == ["merged", "gptq-w8a8"]


def test_one_that_can_never_be_made_has_failed_with_the_reason(line: Promotable) -> None:
    whole = line.adapter()
    found = only(progress_of(line.world.artifacts, whole, ["merged"]))
    assert found.state == "failed"
    assert "a whole model already" in found.detail


@pytest.mark.parametrize("name", list(EXPORTS))
def test_of_an_ungated_result_nothing_is_judged(line: Promotable, name: str) -> None:
    adapter = accepted(line, gates="none")
    for step in EXPORTS[name].steps:
        made(line, adapter, step.name)
    found = {each.format: each for each in progress_of(line.world.artifacts, adapter, [])}
    assert (found[name].state, found[name].report) == ("ungated", "")
