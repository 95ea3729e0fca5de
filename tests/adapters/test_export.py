"""The export: only what passes every gate, judged from this candidate's own verified bytes, becomes an adapter."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ft_assets.adapters.export import export_adapter, rejection_reason
from ft_assets.adapters.lineage import lineage, verify_lineage
from ft_assets.evals.evidence import Evidence
from ft_assets.evals.gates import passed
from ft_assets.evals.judging import judge_candidate
from ft_assets.packs.encoding.tokenizer import ChatTokenizer
from ft_resources.artifacts import Artifact, FileEntry, content_digest
from ft_resources.canonical import canonical_json, sha256_bytes
from ft_resources.errors import BadBase, CorruptArtifact, GateRejected, UserError
from ft_resources.store import Store
from ft_resources.work import WorkRequest
from tests.base_models.made import rebuilt_base
from tests.evals.world import REVISION, SOURCE, SUITE, World, make_evidence, metric_evidence, suite_evidence
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
    assert [v["outcome"] for v in read_json(result.folder, "verdicts.json")] == ["pass", "pass"]
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


REJECTED: dict[str, tuple[Evidence | bytes, str]] = {
    "a planted regression": (
        make_evidence(suites={SUITE: suite_evidence(0.535, 0.483)}),
        "a drop of 5.2 points where at most 2 are allowed",
    ),
    "no gain": (make_evidence(holdout={"exact_match": metric_evidence(0.2, 0.2)}), "a gain of 0.0% relative"),
    "too few items": (make_evidence(suites={SUITE: suite_evidence(half=9.0)}), "inconclusive"),
    "a suite left out": (make_evidence(suites={}), "colours.v1 was not scored"),
    "a metric left out": (make_evidence(holdout={}), "exact_match was not measured"),
    "stale evidence": (canonical_json(make_evidence().model_dump(mode="json")), "belongs to another eval report"),
    "nothing readable": (b"{}", "cannot be read as evidence"),
    "not a number": (
        json.dumps({**make_evidence().model_dump(mode="json"), "majority_rate": math.nan}).encode(),
        "cannot be read as evidence",
    ),
}


@pytest.mark.parametrize("case", REJECTED)
def test_whatever_is_wrong_with_the_evidence_there_is_no_adapter_and_the_reason_is_said(
    world: World, base: Artifact, checkpoint: Artifact, case: str
) -> None:
    evidence, words = REJECTED[case]
    request = world.adapter_request(base, checkpoint, world.eval_report(base, checkpoint, evidence))
    assert words in rejection_reason(world.artifacts, request)
    context = world.context(request)
    with pytest.raises(GateRejected) as caught:
        export_adapter(context)
    assert words in caught.value.what
    assert caught.value.remedy
    assert list(context.output.iterdir()) == []


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
    path.write_bytes(path.read_bytes().replace(b"0.4", b"0.9"))
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
    report = world.eval_report(base, checkpoint, make_evidence(suites={SUITE: suite_evidence(0.535, 0.483)}))
    request = world.adapter_request(base, checkpoint, report)
    good = make_evidence(fingerprint=report.address.fingerprint)
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
    drop=st.floats(0, 0.1),
    gain=st.floats(-0.2, 0.4),
    half=st.floats(0, 12),
    n=st.integers(1, 2000),
    stale=st.booleans(),
)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_judged_from_the_store_is_what_the_evidence_says(
    tmp_path_factory: pytest.TempPathFactory, drop: float, gain: float, half: float, n: int, stale: bool
) -> None:
    folder = tmp_path_factory.mktemp("world")
    world = World(store=Store(str(folder / "store")), folder=folder)
    base = world.publish("base_model", {"config.json": b"{}"})
    checkpoint = world.publish("checkpoint", {"final/x": b"x"}, inputs={"base": base})
    evidence = make_evidence(
        suites={SUITE: suite_evidence(0.5, 0.5 - drop, half=half)},
        holdout={"exact_match": metric_evidence(0.3, 0.3 + gain, half=0.02, n=n)},
    )
    data = canonical_json(evidence.model_dump(mode="json")) if stale else evidence
    request = world.adapter_request(base, checkpoint, world.eval_report(base, checkpoint, data))
    verdict = passed(judge_candidate(world.artifacts, request.inputs, request.params))
    good = 100 * drop <= 2 + 1e-6 and 100 * drop + half <= 3 + 1e-6 and gain > 0.02 and n >= 10
    assert verdict <= (good and not stale)


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
