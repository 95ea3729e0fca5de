"""Whatever is wrong with a candidate's evidence, it becomes no adapter, and the reason is said."""

import json
import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ft_assets.workers.adapters.export import export_adapter
from ft_assets.workers.adapters.rejection import rejection_reason
from ft_assets.workers.evals.evidence import Evidence
from ft_assets.workers.evals.gates import passed
from ft_assets.workers.evals.verdicts import judge_candidate, waive_candidate
from ft_assets.workers.evals.waivers import WaiverRecord
from ft_resources.artifacts import Artifact, FileEntry, content_digest
from ft_resources.canonical import canonical_json, sha256_bytes
from ft_resources.errors import CorruptArtifact, GateRejected
from ft_resources.store_marker import open_store
from ft_resources.work import WorkRequest
from tests.workers.evals.results import SUITE, Results, flips, losses, make_results
from tests.workers.evals.world import World


def waive_request(world: World, request: WorkRequest, gate: str, *, actor: str, note: str) -> WaiverRecord:
    """What ``ft gate waive`` does."""
    return waive_candidate(world.artifacts, request.inputs, request.params, gate, actor=actor, note=note)


@dataclass
class Bad:
    """A report with something wrong: other results, or figures that replace theirs; and the words for it."""

    words: str
    results: Results = field(default_factory=make_results)
    evidence: Evidence | bytes | None = None


GOOD = make_results()
HOLDOUT = GOOD.columns()["holdout"]
REJECTED: dict[str, Bad] = {
    "a planted regression": Bad(
        "a drop of 5.2 points (allowed: at most 2)",
        make_results(suites={SUITE: flips(0.535, 0.483, 1000)}),
    ),
    "no gain": Bad("a gain of 0.0% relative", make_results(correct=flips(0.2, 0.2, 400, extra=1))),
    "an overfit: right answers lost": Bad("a gain of -50.0% relative", make_results(correct=flips(0.2, 0.1, 400))),
    "too few items": Bad("inconclusive", make_results(suites={SUITE: flips(0.5, 0.5, 100)})),
    "a suite left out": Bad("colours.v1 was not scored", make_results(suites={})),
    "a metric left out": Bad(
        "exact_match was not measured", evidence=GOOD.evidence().model_copy(update={"holdout": {}})
    ),
    "stale evidence": Bad(
        "belongs to another eval report", evidence=canonical_json(GOOD.evidence().model_dump(mode="json"))
    ),
    "nothing readable": Bad("cannot be read as evidence", evidence=b"{}"),
    "not a number": Bad(
        "cannot be read as evidence",
        evidence=json.dumps({**GOOD.evidence().model_dump(mode="json"), "majority_rate": math.nan}).encode(),
    ),
    "better figures than samples": Bad(
        "but its samples give 0.2 → 0.1 of 400",
        make_results(correct=flips(0.2, 0.1, 400)),
        GOOD.evidence(),
    ),
    "a sample that is not a number": Bad(
        "is not all finite numbers",
        make_results(others={"holdout": {**HOLDOUT, "candidate_nll": [math.nan, *HOLDOUT["candidate_nll"][1:]]}}),
        GOOD.evidence(),
    ),
    "a sample left out": Bad(
        "of 400 for exact_match, but its samples give",
        make_results(others={"holdout": {name: column[1:] for name, column in HOLDOUT.items()}}),
        GOOD.evidence(),
    ),
    "no samples at all": Bad(
        "is empty", make_results(others={"holdout": {name: [] for name in HOLDOUT}}), GOOD.evidence()
    ),
    "a column left out": Bad(
        "have no column 'candidate_nll'",
        make_results(others={"holdout": {name: HOLDOUT[name] for name in HOLDOUT if name != "candidate_nll"}}),
        GOOD.evidence(),
    ),
    "two samples of one id": Bad(
        "items without a unique id",
        make_results(others={SUITE: {**GOOD.columns()[SUITE], "item_id": ["0"] * 1000}}),
        GOOD.evidence(),
    ),
    "a tiny holdout": Bad(
        "too few to decide; at least 4 more holdout rows",
        make_results(correct=flips(0.0, 1.0, 6, extra=0), losses=losses(6)),
    ),
}


@pytest.mark.parametrize("case", REJECTED)
def test_whatever_is_wrong_with_the_evidence_there_is_no_adapter_and_the_reason_is_said(
    world: World, base: Artifact, checkpoint: Artifact, case: str
) -> None:
    bad = REJECTED[case]
    request = world.adapter_request(base, checkpoint, world.eval_report(base, checkpoint, bad.results, bad.evidence))
    assert bad.words in rejection_reason(world.artifacts, request)
    context = world.context(request)
    with pytest.raises(GateRejected) as caught:
        export_adapter(context)
    assert bad.words in caught.value.what
    assert caught.value.remedy
    assert list(context.output.iterdir()) == []


@pytest.mark.parametrize("name", [f"samples/{SUITE}.parquet", "samples/holdout.parquet"])
def test_a_report_without_its_samples_is_refused(world: World, base: Artifact, checkpoint: Artifact, name: str) -> None:
    report = world.eval_report(base, checkpoint)
    files = {path: report.read(path) for path in report.manifest.files if path != name}
    inputs, params = {"base": base, "checkpoint": checkpoint}, {"without": name}
    fingerprint = world.request("eval_report", inputs=inputs, params=params).address.fingerprint
    files["report.json"] = canonical_json({**json.loads(files["report.json"]), "fingerprint": fingerprint})
    bare = world.publish("eval_report", files, inputs=inputs, params=params)
    assert f"the report has no {name}" in rejection_reason(
        world.artifacts, world.adapter_request(base, checkpoint, bare)
    )


def test_an_inconclusive_verdict_of_a_small_holdout_can_be_waived_by_name_and_the_adapter_says_so(
    world: World, base: Artifact, checkpoint: Artifact
) -> None:
    small = make_results(correct=flips(0.2, 0.25, 40, extra=4), losses=losses(40, fall=0.2, noise=2.0))
    report = world.eval_report(base, checkpoint, small)
    request = world.adapter_request(base, checkpoint, report)
    with pytest.raises(GateRejected) as caught:
        export_adapter(world.context(request))
    assert "ft gate waive" in (caught.value.remedy or "")
    waive_request(world, request, "task_gain", actor="ann", note="No more tickets exist; read all answers.")
    result = export_adapter(world.context(request))
    (gain,) = [v for v in json.loads((result.folder / "verdicts.json").read_bytes()) if v["gate"] == "task_gain"]
    assert gain["outcome"] == "inconclusive"
    assert (gain["waiver"]["actor"], gain["waiver"]["note"]) == ("ann", "No more tickets exist; read all answers.")
    card = (result.folder / "README.md").read_text()
    assert "except task_gain (inconclusive, waived)" in card
    # Bound to these thresholds: a stricter gate is inconclusive again.
    stricter = world.adapter_request(base, checkpoint, report, task_gain={"min_relative": 0.1})
    first, second = rejection_reason(world.artifacts, stricter).splitlines()
    assert first == "not proved: no gate failed, but the samples are too few to decide task_gain"
    assert second.startswith("task_gain: inconclusive")


def test_the_report_of_another_candidate_or_base_and_what_tighter_gates_reject_are_refused(
    world, base, checkpoint
) -> None:
    report = world.eval_report(base, checkpoint)
    for of, named, words in (
        (world.checkpoint(base, strength=0.3, seed=8), (base, report), "belongs to another checkpoint"),
        (checkpoint, (world.base(seed=4), report), "belongs to another base"),
        (checkpoint, (base, checkpoint), "belongs to another asset"),
    ):
        assert words in rejection_reason(world.artifacts, world.adapter_request(named[0], of, named[1]))
    greedy = world.adapter_request(base, checkpoint, report, task_gain={"min_relative": 900.0})
    assert "required: at least 90000.0%" in rejection_reason(world.artifacts, greedy)


def test_a_report_that_is_gone_damaged_or_swapped_is_refused(world, base, checkpoint) -> None:
    report = world.eval_report(base, checkpoint, make_results(suites={SUITE: flips(0.535, 0.483, 1000)}))
    request, manifest = world.adapter_request(base, checkpoint, report), f"{report.address}/manifest.json"
    path, whole = report.path("report.json", world.folder), world.store.get(manifest)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"0.4,", b"0.9,"))
    assert "does not match its sha256" in rejection_reason(world.artifacts, request)
    # Together with its manifest.
    path.write_bytes(data)
    good = GOOD.evidence().model_copy(update={"fingerprint": report.address.fingerprint})
    swap(world, report, "report.json", canonical_json(good.model_dump(mode="json")))
    assert "has changed since it was made" in rejection_reason(world.artifacts, request)
    # Samples that are no Parquet.
    world.store.put(manifest, whole)
    path.write_bytes(data)
    swap(world, report, "samples/holdout.parquet", b"PAR1 nothing of the kind PAR1")
    changed = world.adapter_request(base, checkpoint, world.artifacts.get(report.address))
    assert "cannot be read as Parquet" in rejection_reason(world.artifacts, changed)
    world.store.delete(manifest)
    assert "no such artifact" in rejection_reason(world.artifacts, request)


def swap(world: World, artifact: Artifact, name: str, data: bytes) -> None:
    """Other bytes for a file, under a manifest that agrees with them in every respect."""
    world.store.put(artifact.location(name), data)
    files = {**artifact.manifest.files, name: FileEntry(size=len(data), sha256=sha256_bytes(data))}
    manifest = artifact.manifest.model_copy(update={"files": files, "content_digest": content_digest(files)})
    sealed = manifest.model_copy(update={"seal": manifest.expected_seal})
    world.store.put_json(f"{artifact.address}/manifest.json", sealed.model_dump(mode="json"))


def test_weights_that_were_swapped_after_the_evaluation_are_never_exported(world, accepted, checkpoint) -> None:
    swap(world, checkpoint, "final/adapter_model.safetensors", b"other weights")
    with pytest.raises(CorruptArtifact, match="has changed since this work was requested"):
        export_adapter(world.context(accepted))


@pytest.mark.statistics
@given(
    lost=st.integers(0, 60),
    gained=st.integers(-60, 120),
    churn=st.integers(1, 60),
    n=st.integers(150, 2000),
    stale=st.booleans(),
)
@settings(max_examples=10)
def test_what_is_judged_from_the_store_is_what_the_evidence_says(
    tmp_path_factory: pytest.TempPathFactory, lost: int, gained: int, churn: int, n: int, stale: bool
) -> None:
    folder = tmp_path_factory.mktemp("world")
    world = World(store=open_store(str(folder / "store"), create=True), folder=folder)
    base = world.publish("base_model", {"config.json": b"{}"})
    checkpoint = world.publish("checkpoint", {"final/x": b"x"}, inputs={"base": base})
    results = make_results(
        suites={SUITE: flips(0.5, 0.5 - min(lost, n // 4) / n, n, extra=min(churn, n // 8))},
        correct=flips(0.3, 0.3 + gained / 400, 400, extra=churn),
    )
    evidence = results.evidence()
    data = canonical_json(evidence.model_dump(mode="json")) if stale else None
    request = world.adapter_request(base, checkpoint, world.eval_report(base, checkpoint, results, data))
    verdict = passed(judge_candidate(world.artifacts, request.inputs, request.params))
    suite, metric = evidence.suites[SUITE], evidence.holdout["exact_match"]
    good = suite.difference_points >= -2 - 1e-6 and suite.interval_points[0] >= -3 - 1e-6
    good = good and metric.improvement >= 0.015 - 1e-6 and metric.interval[0] > 0
    assert verdict == (good and not stale)
