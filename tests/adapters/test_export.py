"""The export: only what passes every gate, judged from this candidate's own verified bytes, becomes an adapter."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ft_assets.adapters.export import export_adapter, rejection_reason
from ft_assets.adapters.lineage import lineage, verify_lineage
from ft_assets.evals.evidence import Evidence
from ft_assets.evals.gates import passed
from ft_assets.evals.judging import judge_candidate, waive_candidate
from ft_assets.evals.waivers import WaiverRecord
from ft_assets.packs.encoding.tokenizer import ChatTokenizer
from ft_resources.artifacts import Artifact, FileEntry, content_digest
from ft_resources.canonical import canonical_json, sha256_bytes
from ft_resources.errors import BadBase, CorruptArtifact, GateRejected, UserError
from ft_resources.store import Store
from ft_resources.work import WorkRequest
from tests.base_models.made import rebuilt_base
from tests.evals.results import SUITE, Results, flips, losses, make_results
from tests.evals.world import REVISION, SOURCE, World
from tests.fake_base import CHAT_TEMPLATE


@pytest.fixture
def base(world: World) -> Artifact:
    return world.base()


@pytest.fixture
def checkpoint(world: World, base: Artifact) -> Artifact:
    return world.checkpoint(base)


@pytest.fixture
def accepted(world: World, base: Artifact, checkpoint: Artifact) -> WorkRequest:
    return world.adapter_request(base, checkpoint, world.eval_report(base, checkpoint))


def read_json(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_bytes())


def test_an_accepted_candidate_becomes_a_folder_that_needs_only_its_base(
    world: World, base: Artifact, accepted: WorkRequest
) -> None:
    assert rejection_reason(world.artifacts, accepted) == ""
    result = export_adapter(world.context(accepted))
    names = {path.name for path in result.folder.iterdir()}
    assert names == {
        "adapter_config.json",
        "adapter_model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "README.md",
        "lineage.json",
        "verdicts.json",
    }
    assert (result.folder / "chat_template.jinja").read_text() == CHAT_TEMPLATE
    settings_of_base = {k: v for k, v in json.loads(base.read("tokenizer_config.json")).items() if k != "chat_template"}
    assert read_json(result.folder, "tokenizer_config.json") == settings_of_base
    config = read_json(result.folder, "adapter_config.json")
    assert (config["base_model_name_or_path"], config["revision"]) == ("acme/tiny", REVISION)
    outcomes = {v["gate"]: v["outcome"] for v in read_json(result.folder, "verdicts.json")}
    assert outcomes == {
        "regression": "pass",
        "task_gain": "pass",
        **dict.fromkeys(("safety", "judge", "scores"), "not required"),
    }
    assert result.facts["line"] == "acme.things.tiny"
    assert result.facts["metrics"]["exact_match"] == {"base": 0.2, "candidate": 0.4}
    card = (result.folder / "README.md").read_text()
    for words in ("acme.things.v1", "tiny.v1", "20.0%", "40.0%", "base_model: acme/tiny", "✅ pass", "PeftModel"):
        assert words in card
    again = export_adapter(world.context(accepted))
    assert {p.name: p.read_bytes() for p in result.folder.iterdir()} == {
        p.name: p.read_bytes() for p in again.folder.iterdir()
    }


def test_the_recipes_template_goes_before_the_bases(world: World, accepted: WorkRequest) -> None:
    request = WorkRequest(**{**vars_of(accepted), "params": {**accepted.params, "chat_template": "{{ messages }}"}})
    result = export_adapter(world.context(request))
    assert (result.folder / "chat_template.jinja").read_text() == "{{ messages }}"


def test_the_exported_tokenizer_gives_the_ids_of_training_where_the_bases_settings_would_not(world: World) -> None:
    """transformers 5 puts spaces elsewhere than the tokenizer.json of Llama 2, TinyLlama or Phi-3 says."""
    from transformers import AutoTokenizer

    folder = rebuilt_base(world.folder / "rebuilt", None, chat_template=CHAT_TEMPLATE)
    base = world.publish("base_model", folder, tenant="shared", facts={"source": SOURCE, "revision": REVISION})
    checkpoint = world.checkpoint(base)
    request = world.adapter_request(base, checkpoint, world.eval_report(base, checkpoint))
    exported = export_adapter(world.context(request)).folder
    assert (exported / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()
    assert (exported / "chat_template.jinja").read_text() == CHAT_TEMPLATE
    served = AutoTokenizer.from_pretrained(exported)
    messages = [{"role": "user", "content": " hi\n"}, {"role": "assistant", "content": "the\u200b 🙂"}]
    packs = ChatTokenizer.load(folder)
    text = served.apply_chat_template(messages, tokenize=False)
    ids = packs.tokenizer.encode(text, add_special_tokens=False).ids
    assert served.apply_chat_template(messages)["input_ids"] == ids
    stock = AutoTokenizer.from_pretrained(folder)
    assert stock.apply_chat_template(messages)["input_ids"] != ids


def test_a_full_model_whose_tokenizer_cannot_be_served_as_trained_is_refused(world: World) -> None:
    folder = rebuilt_base(world.folder / "qwen", "qwen2", chat_template=CHAT_TEMPLATE)
    base = world.publish("base_model", folder, tenant="shared", facts={"source": SOURCE, "revision": REVISION})
    files = {"final/config.json": (folder / "config.json").read_bytes(), "recipe.json": b"{}"}
    checkpoint = world.publish("checkpoint", files, inputs={"base": base})
    request = world.adapter_request(base, checkpoint, world.eval_report(base, checkpoint))
    with pytest.raises(BadBase, match="transformers would read texts in another way than training did"):
        export_adapter(world.context(request))


def waive_request(world: World, request: WorkRequest, gate: str, *, actor: str, note: str) -> WaiverRecord:
    """What ``ft gate waive`` does."""
    return waive_candidate(world.artifacts, request.inputs, request.params, gate, actor=actor, note=note)


def vars_of(request: WorkRequest) -> dict[str, Any]:
    return {name: getattr(request, name) for name in ("asset", "tenant", "code_version", "inputs", "params", "label")}


@pytest.mark.e2e
def test_the_exported_folder_loads_with_transformers_and_peft(
    world: World, base: Artifact, accepted: WorkRequest
) -> None:
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = export_adapter(world.context(accepted)).folder
    model = peft.PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base.folder(world.folder)), folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "hi"}], tokenize=False, add_generation_prompt=True
    )
    assert text == "<|user|>hi<|end|><|assistant|>"
    assert model.active_adapters == ["default"]


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
        "a drop of 5.2 points where at most 2 are allowed",
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
        "and its samples give 0.2 → 0.1 of 400",
        make_results(correct=flips(0.2, 0.1, 400)),
        GOOD.evidence(),
    ),
    "a sample that is not a number": Bad(
        "is not all finite numbers",
        make_results(others={"holdout": {**HOLDOUT, "candidate_nll": [math.nan, *HOLDOUT["candidate_nll"][1:]]}}),
        GOOD.evidence(),
    ),
    "a sample left out": Bad(
        "of 400 for exact_match, and its samples give",
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
        "items without an id of their own",
        make_results(others={SUITE: {**GOOD.columns()[SUITE], "item_id": ["0"] * 1000}}),
        GOOD.evidence(),
    ),
    "a tiny holdout": Bad(
        "too few to tell; 4 more holdout rows", make_results(correct=flips(0.0, 1.0, 6, extra=0), losses=losses(6))
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


def test_samples_that_are_no_parquet_are_refused(world: World, base: Artifact, checkpoint: Artifact) -> None:
    report = world.eval_report(base, checkpoint)
    swap(world, report, "samples/holdout.parquet", b"PAR1 nothing of the kind PAR1")
    changed = world.artifacts.get(report.address)
    reason = rejection_reason(world.artifacts, world.adapter_request(base, checkpoint, changed))
    assert "cannot be read as Parquet" in reason


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
    (gain,) = [v for v in read_json(result.folder, "verdicts.json") if v["gate"] == "task_gain"]
    assert gain["outcome"] == "inconclusive"
    assert (gain["waiver"]["actor"], gain["waiver"]["note"]) == ("ann", "No more tickets exist; read all answers.")
    card = (result.folder / "README.md").read_text()
    assert "but for task_gain: too few samples to tell, and waived" in card
    # Bound to these thresholds: a stricter gate is inconclusive again.
    stricter = world.adapter_request(base, checkpoint, report, task_gain={"min_relative": 0.1})
    assert "task_gain: inconclusive" in rejection_reason(world.artifacts, stricter)


def test_the_report_of_another_candidate_or_base_is_refused(world: World, base: Artifact, checkpoint: Artifact) -> None:
    other = world.checkpoint(base, strength=0.3, seed=8)
    request = world.adapter_request(base, other, world.eval_report(base, checkpoint))
    assert "about another checkpoint" in rejection_reason(world.artifacts, request)
    stranger = world.base(seed=4)
    request = world.adapter_request(stranger, checkpoint, world.eval_report(base, checkpoint))
    assert "about another base" in rejection_reason(world.artifacts, request)
    request = world.adapter_request(base, checkpoint, checkpoint)
    assert "about another asset" in rejection_reason(world.artifacts, request)


def test_a_report_that_is_gone_or_damaged_is_refused(world: World, base: Artifact, checkpoint: Artifact) -> None:
    report = world.eval_report(base, checkpoint)
    request = world.adapter_request(base, checkpoint, report)
    path = report.path("report.json", world.folder)
    path.write_bytes(path.read_bytes().replace(b"0.4,", b"0.9,"))
    assert "does not match its sha256" in rejection_reason(world.artifacts, request)
    world.store.delete(f"{report.address}/manifest.json")
    assert "no such artifact" in rejection_reason(world.artifacts, request)


def swap(world: World, artifact: Artifact, name: str, data: bytes) -> None:
    """Other bytes for a file, under a manifest that agrees with them in every respect."""
    world.store.put(artifact.location(name), data)
    files = {**artifact.manifest.files, name: FileEntry(size=len(data), sha256=sha256_bytes(data))}
    manifest = artifact.manifest.model_copy(update={"files": files, "content_digest": content_digest(files)})
    sealed = manifest.model_copy(update={"seal": manifest.expected_seal})
    world.store.put_json(f"{artifact.address}/manifest.json", sealed.model_dump(mode="json"))


def test_a_report_that_was_swapped_together_with_its_manifest_is_refused(
    world: World, base: Artifact, checkpoint: Artifact
) -> None:
    report = world.eval_report(base, checkpoint, make_results(suites={SUITE: flips(0.535, 0.483, 1000)}))
    request = world.adapter_request(base, checkpoint, report)
    good = GOOD.evidence().model_copy(update={"fingerprint": report.address.fingerprint})
    swap(world, report, "report.json", canonical_json(good.model_dump(mode="json")))
    assert "has changed since it was made" in rejection_reason(world.artifacts, request)


def test_weights_that_were_swapped_after_the_evaluation_are_never_exported(
    world: World, accepted: WorkRequest, checkpoint: Artifact
) -> None:
    swap(world, checkpoint, "final/adapter_model.safetensors", b"other weights")
    with pytest.raises(CorruptArtifact, match="has changed since it was evaluated"):
        export_adapter(world.context(accepted))


def test_tighter_gates_reject_what_the_defaults_accept(world: World, base: Artifact, checkpoint: Artifact) -> None:
    report = world.eval_report(base, checkpoint)
    greedy = world.adapter_request(base, checkpoint, report, task_gain={"min_relative": 900.0})
    assert "where at least 90000.0% is required" in rejection_reason(world.artifacts, greedy)


def test_an_adapter_that_names_no_revision_of_its_base_is_refused(world: World, base: Artifact) -> None:
    config = {"base_model_name_or_path": "hub:acme/tiny", "revision": None}
    loose = world.publish(
        "checkpoint",
        {"final/adapter_config.json": json.dumps(config).encode(), "recipe.json": b"{}"},
        inputs={"base": base},
    )
    request = world.adapter_request(base, loose, world.eval_report(base, loose))
    with pytest.raises(UserError, match="at revision None, and was trained on hub:acme/tiny at 0123abcd"):
        export_adapter(world.context(request))


@given(
    lost=st.integers(0, 60),
    gained=st.integers(-60, 120),
    churn=st.integers(1, 60),
    n=st.integers(150, 2000),
    stale=st.booleans(),
)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_judged_from_the_store_is_what_the_evidence_says(
    tmp_path_factory: pytest.TempPathFactory, lost: int, gained: int, churn: int, n: int, stale: bool
) -> None:
    folder = tmp_path_factory.mktemp("world")
    world = World(store=Store(str(folder / "store")), folder=folder)
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


def test_lineage_goes_back_to_the_base_and_every_hash_holds(
    world: World, base: Artifact, accepted: WorkRequest
) -> None:
    adapter = world.publish_result(accepted, export_adapter(world.context(accepted)))
    tree = lineage(world.artifacts, str(adapter.address))
    assert set(tree.inputs) == {"base", "checkpoint", "eval_report"}
    assert tree.inputs["checkpoint"].inputs["base"].address == str(base.address)
    assert [name for _, name, _ in tree.walk()][:3] == ["", "base", "checkpoint"]
    stored = json.loads(adapter.read("lineage.json"))
    assert stored["inputs"]["checkpoint"]["inputs"]["base"]["digest"] == base.digest
    assert verify_lineage(world.artifacts, adapter.address) == []


def test_one_flipped_byte_anywhere_below_is_found(world: World, base: Artifact, accepted: WorkRequest) -> None:
    adapter = world.publish_result(accepted, export_adapter(world.context(accepted)))
    path = base.path("tokenizer.json", world.folder)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(bytes(data))
    (finding,) = verify_lineage(world.artifacts, adapter.address)
    assert "tokenizer.json" in finding
    assert "does not match its sha256" in finding


def test_a_missing_ancestor_is_named(world: World, base: Artifact, accepted: WorkRequest) -> None:
    adapter = world.publish_result(accepted, export_adapter(world.context(accepted)))
    world.store.delete(f"{base.address}/manifest.json")
    assert verify_lineage(world.artifacts, adapter.address) == [f"{base.address} is not in the store any more"]
    assert not lineage(world.artifacts, adapter.address).inputs["base"].present
