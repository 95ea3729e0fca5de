"""The asset and its checks in real Dagster runs; the pack itself is made beforehand, without a worker."""

import warnings

import dagster as dg
import pytest

from ft_assets.control import identity
from ft_assets.control.identity import doctor
from ft_assets.control.identity.doctor import pack_findings, refuse_sick_pack
from ft_assets.graph.assets import packs as assets
from ft_assets.graph.assets.packs import token_pack
from ft_assets.graph.checks.packs import pack_doctor
from ft_assets.graph.listed_keys import list_keys
from ft_assets.graph.partitions import pair_key
from ft_assets.workers.packs.evidence import DOCTOR_CHECKS, EVIDENCE
from ft_assets.workers.packs.report import pack_warnings
from ft_resources.artifacts import Artifact
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.errors import DoctorRefused, MissingInput
from tests.workers.packs.conftest import Workbench, chat, edit_json

DATASET, RECIPE = "acme.chats.v1", "tiny.v1"
PAIR = pair_key(DATASET, RECIPE)


@pytest.fixture
def pack(workbench: Workbench) -> Artifact:
    return workbench.publish_pack(workbench.dataset([chat(f"private {n}?", f"it is {n}") for n in range(20)]))


def _run(monkeypatch: pytest.MonkeyPatch, workbench: Workbench, artifact: Artifact) -> dg.ExecuteInProcessResult:
    monkeypatch.setattr(identity, "token_pack_request", lambda artifacts, dataset, recipe: None)
    monkeypatch.setattr(doctor, "token_pack", lambda artifacts, dataset, recipe: artifact)
    monkeypatch.setattr(doctor, "base_model", lambda artifacts, recipe: workbench.base())
    monkeypatch.setattr(assets, "run_work", lambda *arguments: artifact)
    # No recipe is registered in this little world; what an estimate says is tested with the estimates.
    monkeypatch.setattr(assets, "estimate_training", lambda *arguments: None)
    monkeypatch.setattr(assets, "estimate_metadata", lambda estimate: {})
    instance = dg.DagsterInstance.ephemeral()
    list_keys(instance, dataset=DATASET, recipe=RECIPE)
    definitions = dg.Definitions(
        assets=[token_pack],
        asset_checks=[pack_doctor],
        resources={"store": StoreResource(url=workbench.store.url), "launcher": LauncherResource()},
    )
    job = definitions.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(instance=instance, partition_key=PAIR, raise_on_error=False)


def _materializations(result: dg.ExecuteInProcessResult) -> list[dg.AssetMaterialization]:
    return [event.materialization for event in result.get_asset_materialization_events()]


def test_a_sound_pack_passes_all_checks_of_its_partition(
    monkeypatch: pytest.MonkeyPatch, workbench: Workbench, pack: Artifact
) -> None:
    result = _run(monkeypatch, workbench, pack)
    evaluations = result.get_asset_check_evaluations()
    assert result.success
    assert {evaluation.check_name for evaluation in evaluations} == set(DOCTOR_CHECKS)
    assert all(evaluation.passed for evaluation in evaluations)
    assert {evaluation.partition for evaluation in evaluations} == {str(PAIR)}


def test_the_asset_shows_numbers_and_no_row_text(
    monkeypatch: pytest.MonkeyPatch, workbench: Workbench, pack: Artifact
) -> None:
    metadata = _materializations(_run(monkeypatch, workbench, pack))[0].metadata
    assert metadata["examples"].value == 20
    assert 0 < metadata["fill"].value <= 1
    assert str(metadata["lengths"].value).startswith("![lengths](data:image/svg+xml;base64,")
    assert str(metadata["samples"].value).endswith("report/samples.html")
    assert not any("private" in str(value.value) for value in metadata.values())


def test_rows_that_spell_control_tokens_are_a_warning_with_advice(
    monkeypatch: pytest.MonkeyPatch, workbench: Workbench
) -> None:
    rows = [chat("private", "is it <|end|>?"), chat("a", "b")]
    artifact = workbench.publish_pack(workbench.dataset(rows, [chat("<|user|>", "c")]))
    metadata = _materializations(_run(monkeypatch, workbench, artifact))[0].metadata
    assert metadata["spelled_control_tokens"].value == 1
    warnings = str(metadata["warnings"].value)
    assert (
        "1 training row spells control tokens, which are packed as plain text (row 1 of the upload). Remove" in warnings
    )
    assert (
        "1 validation row spells control tokens, which are packed as plain text (row 3 of the upload). Remove"
        in warnings
    )
    page = artifact.read("report/samples.html").decode()
    assert page.count('<p class="warning">') == 2
    assert "the template writes its own control tokens" in page


def test_packs_from_before_there_was_a_count_have_no_warning() -> None:
    assert pack_warnings({"examples": 3}) == []
    assert pack_warnings({"spelled": 0, "spelled_rows": [], "validation": {"spelled": 0}}) == []
    (warning,) = pack_warnings({"spelled": 3, "spelled_rows": [4, 1200]})
    assert warning.startswith("3 training rows spell control tokens")
    assert "(rows 4, 1200, … of the upload)" in warning
    assert "Remove them from the texts" in warning


def test_a_pack_without_evidence_fails_every_check_and_is_refused_by_what_trains_on_it(
    monkeypatch: pytest.MonkeyPatch, workbench: Workbench
) -> None:
    built = workbench.build(workbench.dataset([chat("a", "b")]))
    (built.folder / EVIDENCE).unlink()
    result = _run(monkeypatch, workbench, workbench.publish_folder("token_pack", built.folder, built.facts))
    evaluations = result.get_asset_check_evaluations()
    assert len(evaluations) == len(DOCTOR_CHECKS)
    assert not any(evaluation.passed for evaluation in evaluations)
    (failed,) = [event.step_failure_data.error for event in result.all_events if event.is_step_failure]
    assert failed.cls_name == "DoctorRefused"
    # However it is launched, what trains refuses it too.
    with pytest.raises(DoctorRefused, match="template is the base's: the pack has no evidence of the doctor"):
        refuse_sick_pack(workbench.artifacts, *PAIR.split("|"))


def test_a_base_of_another_architecture_is_warned_about_and_may_train(
    monkeypatch: pytest.MonkeyPatch, workbench: Workbench, pack: Artifact
) -> None:
    edit_json(workbench.base_folder / "config.json", lambda config: config.update(model_type="mistral"))
    result = _run(monkeypatch, workbench, pack)
    (warned,) = [evaluation for evaluation in result.get_asset_check_evaluations() if not evaluation.passed]
    assert (warned.check_name, warned.severity) == ("packed_equals_alone", dg.AssetCheckSeverity.WARN)
    assert "Not shown for this base (mistral)" in str(warned.description)
    assert result.success
    refuse_sick_pack(workbench.artifacts, *PAIR.split("|"))


def test_a_missing_pack_fails_every_check(monkeypatch: pytest.MonkeyPatch, workbench: Workbench) -> None:
    # Without results Dagster would let a separate run of what is downstream through.
    def missing(*arguments: object) -> Artifact:
        raise MissingInput("token_pack", str(PAIR))

    monkeypatch.setattr(doctor, "token_pack", missing)
    findings = pack_findings(workbench.artifacts, *PAIR.split("|"))
    assert [finding.name for finding in findings] == list(DOCTOR_CHECKS)
    assert not any(finding.passed for finding in findings)


def test_every_check_is_partitioned() -> None:
    for spec in pack_doctor.check_specs:
        assert spec.partitions_def == token_pack.partitions_def
        assert spec.description


def test_loading_the_checks_warns_of_no_preview_api() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", dg.PreviewWarning)
        import importlib

        from ft_assets.graph.checks import packs as checks

        importlib.reload(checks)
