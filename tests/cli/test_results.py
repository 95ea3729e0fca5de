"""Downloading, tracing and verifying results, and rebuilding the views from the store."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from ft_assets import api
from ft_assets.api.views import rebuild_tracking
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.records.submissions import open_submissions
from ft_assets.settings.catalogue.gates import GATES
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_resources.artifacts import Artifact
from ft_resources.attempts import Attempt
from ft_resources.tracking import Mirror
from ft_resources.work import WorkSpec
from tests.cli.conftest import DATASET, LINE, RECIPE, Ft
from tests.e2e.project import Project
from tests.signing_keys import make_pair, signs_with

pytestmark = pytest.mark.dagster

Made = dict[str, Artifact]


def spoil(project: Project, artifact: Artifact, name: str) -> None:
    """Flip a byte of a stored file."""
    path = project.store.local_path(artifact.location(name))
    assert path is not None
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("by", ["address", "short address", "line"])
def test_an_adapter_is_downloaded_whole(ft: Ft, made: Made, tmp_path: Path, by: str) -> None:
    adapter = made["adapter"]
    target = tmp_path / "new" / "home"
    source = {"address": str(adapter.address), "short address": str(adapter.address)[:20], "line": LINE}[by]
    result = ft("adapter", "download", source, target)
    assert result.stdout == f"{adapter.address}\n"
    files = {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}
    assert files == {name: adapter.read(name) for name in adapter.manifest.files}
    assert list(target.parent.iterdir()) == [target]
    assert LINE in ft("adapter", "list").stdout


def test_the_base_of_an_adapter_is_copied_for_serving(ft: Ft, made: Made, tmp_path: Path) -> None:
    result = ft("adapter", "base", LINE, tmp_path / "base")
    base = made["base_model"]
    assert result.stdout == f"{base.address}\n"
    folder = tmp_path / "base"
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert files == {name: base.read(name) for name in base.manifest.files}
    refused = ft("adapter", "base", str(base.address), tmp_path / "other")
    assert refused.exit_code == 2
    assert "this is a base_model, not an adapter" in refused.stderr


def test_a_signed_adapter_comes_home_with_its_signature(
    ft: Ft, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = ft("adapter", "sign", LINE)
    assert (refused.exit_code, "no signing key is set" in refused.stderr) == (2, True)
    signs_with(monkeypatch, make_pair(tmp_path / "keys", "ours")[0])
    assert [ft("adapter", "sign", LINE).stderr.strip() for _ in range(2)] == ["signed", "already signed with this key"]
    ft("adapter", "download", LINE, tmp_path / "home")
    signature = json.loads((tmp_path / "home" / "model.sig").read_text())
    statement = json.loads(base64.b64decode(signature["dsseEnvelope"]["payload"]))
    assert statement["subject"][0]["name"] == str(made["adapter"].address)


def test_a_download_never_overwrites(ft: Ft, made: Made, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    result = ft("adapter", "download", LINE, tmp_path / "home")
    assert result.exit_code == 2
    assert "this path exists already" in result.stderr
    assert list((tmp_path / "home").iterdir()) == []


def test_a_place_that_cannot_be_written_is_one_error_and_no_traceback(ft: Ft, made: Made, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = ft("adapter", "download", LINE, tmp_path / "file" / "adapter")
    assert result.exit_code == 2
    assert "the folder cannot be written" in result.stderr


def test_a_damaged_adapter_is_not_downloaded_at_all(project: Project, ft: Ft, made: Made, tmp_path: Path) -> None:
    spoil(project, made["adapter"], "final/weights.bin")
    result = ft("adapter", "download", LINE, tmp_path / "home" / "adapter")
    assert result.exit_code == 2
    assert "does not match its sha256" in result.stderr
    assert list((tmp_path / "home").iterdir()) == []


def test_only_adapters_are_downloaded_and_unknown_lines_are_named(ft: Ft, made: Made, tmp_path: Path) -> None:
    result = ft("adapter", "download", made["checkpoint"].address, tmp_path / "home")
    assert result.exit_code == 2
    assert "this is a checkpoint" in result.stderr
    assert "acme.colours.other" in ft("adapter", "download", "acme.colours.other", tmp_path / "home").stderr


def test_an_address_that_begins_like_none_or_several_is_refused(ft: Ft, made: Made) -> None:
    assert "no artifact's fingerprint starts with this" in ft("lineage", "acme/adapter/xyz").stderr
    assert ft("lineage", "acme/adapter").exit_code == 2
    assert ft("verify", f"acme/adapter/{'0' * 64}").exit_code == 2


def test_lineage_reaches_the_uploaded_bytes(ft: Ft, made: Made) -> None:
    shown = ft("lineage", made["adapter"].address).stdout
    for asset in ("checkpoint", "token_pack", "dataset", "raw_dataset", "base_model", "baseline_report"):
        assert str(made[asset].address)[: -64 + 12] in shown
    assert "as above" in shown


def test_lineage_and_verify_take_what_people_call_things_and_say_it_again(project: Project, ft: Ft, made: Made) -> None:
    for target, asset in {
        DATASET: "dataset",
        RECIPE: "base_model",
        f"{DATASET}|{RECIPE}": "adapter",
        LINE: "adapter",
    }.items():
        lineage, verified = ft("lineage", target), ft("verify", target)
        assert (lineage.exit_code, verified.exit_code) == (0, 0), target
        assert lineage.stdout.startswith(str(made[asset].address)[: -64 + 12])
        assert str(made[asset].address)[: -64 + 12] in verified.stderr
    assert f"{DATASET}, rows.jsonl" in ft("lineage", DATASET).stdout
    spoil(project, made["raw_dataset"], "upload/rows.jsonl")
    assert f"({DATASET}, rows.jsonl)" in ft("verify", DATASET).stdout
    for unknown in ("acme.colours.v9", "tiny.v9", "acme.colours.other", f"{DATASET}|tiny.v9"):
        assert ft("lineage", unknown).exit_code == ft("verify", unknown).exit_code == 2


def test_verify_finds_one_flipped_byte_anywhere(project: Project, ft: Ft, made: Made) -> None:
    assert ft("verify", made["adapter"].address).exit_code == 0
    assert ft("verify", "--all").exit_code == 0
    spoil(project, made["raw_dataset"], "upload/rows.jsonl")
    for arguments in (("--all",), (made["raw_dataset"].address,), (made["adapter"].address,)):
        result = ft("verify", *arguments)
        assert result.exit_code == 1
        assert "upload/rows.jsonl" in result.stdout
    assert ft("verify").exit_code == 2


def test_verify_goes_on_after_a_manifest_that_cannot_be_read(project: Project, ft: Ft, made: Made) -> None:
    project.store.put(f"{made['token_pack'].address}/manifest.json", b"{}")
    result = ft("verify", "--all")
    assert result.exit_code == 1
    assert "the manifest cannot be read" in result.stdout


def test_the_views_come_back_from_the_store(project: Project, ft: Ft, made: Made, instance: dg.DagsterInstance) -> None:
    asked = ft("submit", DATASET, RECIPE).stdout.strip()
    # As a version of the platform left it that did not list submissions among jobs.
    for entry in list(project.store.entries("acme/jobs")):
        project.store.delete(entry.path)
    first = ft("rebuild")
    assert first.exit_code == 0
    assert "partitions added: 2" in first.stdout
    assert "materializations added: 8 of 8" in first.stdout
    assert "jobs added: 1" in first.stdout
    (job,) = api.job_ids("acme", store=project.store)
    assert api.job_state("acme", job, store=project.store).job.submission == asked
    assert instance.get_dynamic_partitions("dataset") == [DATASET]
    assert instance.get_dynamic_partitions("recipe") == [RECIPE]
    pair = f"{DATASET}|{RECIPE}"
    assert instance.get_materialized_partitions(dg.AssetKey("adapter")) == {pair}
    event = instance.get_latest_materialization_event(dg.AssetKey("checkpoint"))
    assert event is not None
    assert event.asset_materialization is not None
    tags = event.asset_materialization.tags
    assert tags is not None
    assert tags["dagster/data_version"] == made["checkpoint"].digest
    assert tags["dagster/input_data_version/token_pack"] == made["token_pack"].digest
    # With the checks' verdicts: the UI shows a materialization without them as one that was not checked.
    review = dg.AssetCheckKey(dg.AssetKey("dataset"), "review")
    gates = [dg.AssetCheckKey(dg.AssetKey("eval_report"), name) for name in GATES]
    shown = instance.event_log_storage.get_asset_check_partition_info([review, *gates])
    assert [info.partition_key for info in shown] == [DATASET, *[pair] * len(gates)]
    assert all(info.is_current for info in shown)
    second = ft("rebuild")
    assert "partitions added: 0" in second.stdout
    assert "materializations added: 0 of 8" in second.stdout
    assert "jobs added: 0" in second.stdout


def test_rebuild_says_what_it_could_not_read_and_does_the_rest(project: Project, ft: Ft, made: Made) -> None:
    project.store.put(f"{made['dataset'].address}/manifest.json", b"{}")
    result = ft("rebuild")
    assert result.exit_code == 1
    assert "the manifest cannot be read" in result.stderr
    assert "materializations added: 3 of 3" in result.stdout


class Notes(Mirror):
    """Remembers what it is told, instead of telling MLflow."""

    def __init__(self) -> None:
        super().__init__("")
        self.notes: list[tuple[Any, ...]] = []

    def run_started(self, address: str, *, name: str, params: Any, tags: Any) -> None:
        self.notes.append(("started", address, name))

    def steps(self, address: str, rows: Any) -> None:
        self.notes.append(("steps", address, rows))

    def run_finished(self, address: str, status: str) -> None:
        self.notes.append(("finished", address, status))

    def register_adapter(self, artifact: Artifact, *, tags: Any, card: str) -> None:
        self.notes.append(("registered", str(artifact.address), tags, card))


def test_rebuild_names_an_adapter_that_mlflow_cannot_be_told_of_and_does_the_rest(
    project: Project, ft: Ft, made: Made
) -> None:
    ft("submit", DATASET, RECIPE)
    path = project.store.local_path(made["adapter"].location("README.md"))
    assert path is not None
    path.unlink()
    mirrored = rebuild_tracking(project.store, Notes())
    assert mirrored.adapters == 0
    assert "README.md" in mirrored.problem


def test_mlflow_is_told_of_every_training_and_adapter_in_the_store(project: Project, ft: Ft, made: Made) -> None:
    ft("submit", DATASET, RECIPE)
    address = made["checkpoint"].address
    for number in (1, 2):
        attempt = Attempt(project.store, address, number)
        attempt.claim("ann")
        spec = WorkSpec(
            asset="checkpoint",
            store_url=project.store_url,
            address=address,
            attempt=number,
            identity={},
            inputs={},
            params={},
            runtime={},
            label="pair",
            actor="ann",
        )
        project.store.put(f"{attempt.path}/spec.json", spec.model_dump_json().encode())
        project.store.put_json(f"{attempt.path}/steps-000001.jsonl", {"step": number, "loss": 2.0, "at": 1.0})
    mirror = Notes()
    mirrored = rebuild_tracking(project.store, mirror)
    assert (mirrored.runs, mirrored.adapters, mirrored.problem) == (1, 1, "")
    assert mirror.notes[:4] == [
        ("started", str(address), "pair"),
        ("steps", str(address), [{"step": 1, "loss": 2.0, "at": 1.0}]),
        ("steps", str(address), [{"step": 2, "loss": 2.0, "at": 1.0}]),
        ("finished", str(address), "FINISHED"),
    ]
    _, adapter, tags, card = mirror.notes[4]
    assert adapter == str(made["adapter"].address)
    assert card.startswith("# adapter of")
    assert (tags["ft.line"], tags["ft.dataset"], tags["ft.recipe"]) == (LINE, DATASET, RECIPE)
    assert tags["ft.metric.exact_match.candidate"] == "0.8"
    for asset in ("raw_dataset", "dataset", "base_model", "token_pack", "checkpoint", "eval_report", "baseline_report"):
        assert tags[f"ft.lineage.{asset}"] == str(made[asset].address)
        assert tags[f"ft.lineage.{asset}.digest"] == made[asset].digest
    assert "ft.lineage.suite.digest" in tags


@pytest.fixture
def pair(project: Project) -> tuple[str, str]:
    """A pair whose recipe asks for an export."""
    add_dataset_version(
        project.store, project.dataset(), tenant="acme", name="colours", policy=DatasetPolicy(), actor="ann"
    )
    register_recipe(project.store, project.recipe(RECIPE, exports=["merged"]), actor="ann")
    return DATASET, RECIPE


def test_status_shows_how_exports_stand_once_there_is_an_adapter(
    project: Project, ft: Ft, pair: tuple[str, str], made_later: Callable[[], dict[str, Artifact]]
) -> None:
    assert ft("submit", *pair).exit_code == 0
    (asked,) = open_submissions(project.store)
    assert "merged" not in ft("status", asked.id).stdout
    assert "exports" not in json.loads(ft("status", asked.id, "--json").stdout)[0]
    made_later()
    shown = " ".join(ft("status", asked.id).stdout.split())
    # What this store has for an adapter has no files of PEFT's.
    assert "export state now is" in shown
    assert "merged failed" in shown
    (found,) = json.loads(ft("status", asked.id, "--json").stdout)
    ((name, state, why),) = [(each["format"], each["state"], each["detail"]) for each in found["exports"]]
    assert (name, state) == ("merged", "failed")
    assert "already a complete model" in why
