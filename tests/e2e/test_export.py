"""An accepted adapter leaves the platform as one model: made by workers, gated again, and loaded by any engine."""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from ft_assets.api import export, exports_of
from ft_assets.control import identity
from ft_assets.control.submissions.sharing import needed_by_others
from ft_assets.control.submissions.works import export_works, last_attempts
from ft_assets.settings.catalogue.exports import EXPORTS
from ft_assets.workers.adapters.lineage import verify_lineage
from ft_assets.workers.exports.llama_cpp import LlamaCpp
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.errors import GateRejected, UserError
from tests.e2e.project import Project
from tests.journeys import Journey, copied

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def project(accepted: Journey, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return copied(accepted, tmp_path_factory.mktemp("exports") / "project").project


@pytest.fixture(scope="module")
def artifacts(project: Project) -> Artifacts:
    return Artifacts(project.store)


@pytest.fixture(scope="module")
def adapter(accepted: Journey, artifacts: Artifacts) -> Artifact:
    return artifacts.get(Address.parse(accepted.adapter))


@pytest.fixture(scope="module")
def eight_bits(accepted: Journey, project: Project) -> Artifact:
    """The adapter of a recipe that asks for a quantised form."""
    return project.accepted(accepted.dataset, project.recipe("tiny.v3", exports=["gguf-q8_0"]))


def logits(model: Any) -> Any:
    import torch

    with torch.no_grad():
        return model(torch.arange(8, 40)[None]).logits


def test_an_adapter_is_exported_as_one_model_that_passes_its_gates_again(
    project: Project, artifacts: Artifacts, accepted: Journey, adapter: Artifact, tmp_path: Path
) -> None:
    from peft import PeftModel
    from torch import allclose
    from transformers import AutoModelForCausalLM, AutoTokenizer

    base = identity.base_model(artifacts, accepted.recipe)
    made = export(accepted.pair, tmp_path / "model", store=project.store, actor="ann")
    assert made.artifact.manifest.inputs["adapter"] == adapter.ref
    assert made.report is not None
    assert made.report.manifest.inputs["checkpoint"] == made.artifact.ref
    assert {each.gate: each.outcome for each in made.verdicts}["as_the_adapter"] == "pass"
    # In float32 nothing is rounded: each figure is the adapter's own.
    own = artifacts.get(Address.parse(adapter.manifest.inputs["eval_report"].address))
    assert made.report.facts["summary"].keys() == own.facts["summary"].keys()
    for name, each in own.facts["summary"].items():
        assert made.report.facts["summary"][name]["candidate"] == pytest.approx(each["candidate"], rel=1e-5), name

    plain = AutoModelForCausalLM.from_pretrained(base.folder(tmp_path))
    both = PeftModel.from_pretrained(plain, adapter.folder(tmp_path))
    assert allclose(logits(AutoModelForCausalLM.from_pretrained(tmp_path / "model")), logits(both), atol=1e-5)
    assert AutoTokenizer.from_pretrained(tmp_path / "model").chat_template

    # The line and the address name the same, and nothing is made twice.
    for number, source in enumerate((str(adapter.address), "acme.things.tiny")):
        again = export(source, tmp_path / f"again-{number}", store=project.store, actor="ann")
        assert again.artifact.ref == made.artifact.ref
    assert len(attempts_at(project.store, made.artifact.address)) == 1
    assert len(attempts_at(project.store, made.report.address)) == 1
    assert verify_lineage(artifacts, made.report.address) == []
    # Its own evaluation is beside the adapter's and does not take its place.
    assert identity.eval_report(artifacts, accepted.dataset, accepted.recipe).ref == own.ref
    with pytest.raises(UserError, match="there is no export format 'onnx'"):
        export(accepted.pair, tmp_path / "other", format="onnx", store=project.store)
    with pytest.raises(UserError, match="exists already"):
        export(accepted.pair, tmp_path / "model", store=project.store)


def test_a_recipe_that_exports_has_its_model_made_once_the_adapter_is_accepted(
    project: Project, artifacts: Artifacts, accepted: Journey, tmp_path: Path
) -> None:
    # The training is that of the recipe without exports.
    result = project.tune(accepted.dataset, project.recipe("tiny.v2", exports=["merged"]))
    adapter = artifacts.get(Address.parse(result.outcome.adapter))
    assert identity.exports_missing(artifacts, adapter, ["merged"]) == []
    made = artifacts.get(identity.export_request(artifacts, adapter, EXPORTS["merged"]).address)
    # Its work is found by what stops a submission, and by what shows its log.
    works = export_works(project.store, result.submission)
    report = identity.reevaluation_request(artifacts, adapter, made)
    assert [(work.address, work.done, work.attempt) for work in works] == [
        (made.address, True, 1),
        (report.address, True, 1),
    ]
    attempts = [each.address for each in last_attempts(project.store, result.submission)]
    assert attempts[-3:] == [adapter.address, made.address, report.address]
    (shown_by_status,) = exports_of(result.submission.id, store=project.store)
    assert (shown_by_status.format, shown_by_status.state) == ("merged", "accepted")
    assert (shown_by_status.address, shown_by_status.report) == (str(made.address), str(report.address))
    # A submission of the same pair would need it too; this one alone does not count.
    assert not needed_by_others(project.store, report.address, result.submission)
    partition = dg.AssetRecordsFilter(dg.AssetKey("merged_model"), asset_partitions=["acme.things.v1|tiny.v2"])
    (shown,) = project.instance().fetch_materializations(partition, limit=2).records
    metadata = shown.asset_materialization.metadata
    assert metadata["content_digest"].value == made.digest
    assert "as_the_adapter | ✅ pass" in str(metadata["gates"].value)
    # Of a recipe that asks for none there is none, and what is made is not made again by hand.
    other = dg.AssetRecordsFilter(dg.AssetKey("merged_model"), asset_partitions=["acme.things.v1|tiny.v1"])
    assert not project.instance().fetch_materializations(other, limit=1).records
    export(str(adapter.address), tmp_path / "model", store=project.store)
    assert len(attempts_at(project.store, made.address)) == 1


@pytest.mark.llama_cpp
def test_a_recipe_that_exports_a_quantised_form_has_it_made_and_gated_again(
    project: Project, artifacts: Artifacts, eight_bits: Artifact, tmp_path: Path
) -> None:
    assert identity.exports_missing(artifacts, eight_bits, ["gguf-q8_0"]) == []
    made = artifacts.get(identity.export_request(artifacts, eight_bits, EXPORTS["gguf-q8_0"]).address)
    partition = dg.AssetRecordsFilter(dg.AssetKey("quantized_model"), asset_partitions=["acme.things.v1|tiny.v3"])
    (shown,) = project.instance().fetch_materializations(partition, limit=2).records
    metadata = shown.asset_materialization.metadata
    assert metadata["content_digest"].value == made.digest
    assert "as_the_adapter | ✅ pass" in str(metadata["gates"].value)
    # What it is made of is made, and not shown as an export that was asked for.
    merged = artifacts.get(Address.parse(made.manifest.inputs["exported"].address))
    assert merged.address.asset == "merged_model"
    other = dg.AssetRecordsFilter(dg.AssetKey("merged_model"), asset_partitions=["acme.things.v1|tiny.v3"])
    assert not project.instance().fetch_materializations(other, limit=1).records
    exported = export(str(eight_bits.address), tmp_path / "model", format="gguf-q8_0", store=project.store)
    assert exported.artifact.ref == made.ref
    assert {"model.gguf", "Modelfile"} <= {path.name for path in (tmp_path / "model").iterdir()}
    assert verify_lineage(artifacts, made.address) == []


@pytest.mark.llama_cpp
def test_a_quantised_model_that_forgot_is_rejected_like_any_candidate(
    project: Project, artifacts: Artifacts, accepted: Journey, eight_bits: Artifact, tmp_path: Path
) -> None:
    """A file in which nothing of the adapter is left: of the base alone."""
    good = export(str(eight_bits.address), tmp_path / "good", format="gguf-q8_0", store=project.store)
    base = identity.base_model(artifacts, accepted.recipe).folder(tmp_path)
    tools = LlamaCpp.of_environment()
    forgot = good.artifact.folder(tmp_path / "forgot")
    (forgot / "model.gguf").unlink()
    tools.convert(base, tmp_path / "base.gguf", dtype="f32", name="base", pre_tokenizer="gpt-2")
    tools.quantise(tmp_path / "base.gguf", forgot / "model.gguf", "Q8_0")
    request = identity.export_request(artifacts, eight_bits, EXPORTS["gguf-q4_k_m"])
    artifacts.publish(
        request.address,
        forgot,
        writer="w1",
        identity=request.identity,
        inputs=request.inputs,
        facts=good.artifact.facts,
        actor="ann",
    )
    with pytest.raises(GateRejected, match="the export is not as good as the adapter"):
        export(str(eight_bits.address), tmp_path / "model", format="gguf-q4_k_m", store=project.store)
    assert not (tmp_path / "model").exists()


@pytest.mark.llm_compressor
@pytest.mark.parametrize("name", ["gptq-w8a8", "fp8-dynamic"])
def test_a_model_quantised_for_vllm_is_evaluated_as_it_is_and_gated_again(
    project: Project, artifacts: Artifacts, adapter: Artifact, tmp_path: Path, name: str
) -> None:
    made = export(str(adapter.address), tmp_path / "model", format=name, store=project.store, actor="ann")
    assert made.served_on.startswith("GPUs of compute capability")
    assert {each.gate: each.outcome for each in made.verdicts}["as_the_adapter"] == "pass"
    own = artifacts.get(Address.parse(adapter.manifest.inputs["eval_report"].address))
    assert made.report is not None
    mine, theirs = (each.facts["summary"]["perplexity"]["candidate"] for each in (made.report, own))
    assert mine != theirs, "what is evaluated is the quantised model and not the merged one"
    assert mine == pytest.approx(theirs, rel=0.05)
    assert verify_lineage(artifacts, made.report.address) == []
