"""Dataset file and recipe in, gated adapter out: the whole graph on a real instance with real workers."""

import re
from contextlib import nullcontext
from typing import Any

import dagster as dg
import pytest

from ft_assets.api import list_adapters, promote, status
from ft_assets.control import identity
from ft_assets.control.registry.register import register_recipe
from ft_assets.definitions import build_definitions
from ft_assets.graph.listed_keys import list_keys
from ft_assets.records.submissions import SubmissionStatus, all_submissions, find_outcome, find_submission
from ft_resources.artifacts import Address, Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.errors import UserError
from ft_resources.store_layout import ROOT_FOLDERS, TENANTS
from tests.e2e.project import ROOT, Project
from tests.journeys import Journey, copied

pytestmark = pytest.mark.e2e

ASSETS = ("raw_dataset", "dataset", "base_model", "baseline_report", "token_pack", "checkpoint", "eval_report")


@pytest.fixture(scope="module")
def project(accepted: Journey, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the journey of both pairs, in which tests go on."""
    return copied(accepted, tmp_path_factory.mktemp("main") / "project").project


@pytest.fixture(scope="module")
def instance(project: Project) -> dg.DagsterInstance:
    return project.instance()


def test_a_dataset_and_a_recipe_become_an_accepted_adapter(accepted: Journey) -> None:
    adapter = Artifacts(accepted.store).get(Address.parse(accepted.adapter))
    assert {"adapter_model.safetensors", "adapter_config.json", "tokenizer.json", "README.md", "verdicts.json"} <= set(
        adapter.manifest.files
    )
    assert adapter.verify() == []
    assert adapter.manifest.actor == "ann"


def test_all_that_it_leaves_of_tenants_lies_below_one_folder(accepted: Journey) -> None:
    assert set(accepted.store.root_folders()) - ROOT_FOLDERS == {TENANTS}
    assert {"acme", "shared"} <= set(accepted.store.tenants())


def test_every_asset_is_materialized_with_its_content_digest_as_data_version(instance: dg.DagsterInstance) -> None:
    for name in (*ASSETS, "adapter"):
        event = instance.get_latest_materialization_event(dg.AssetKey(name))
        assert event is not None, name
        assert event.asset_materialization.tags["dagster/data_version"], name


def test_what_its_first_step_waited_for_is_told_by_status_and_in_dagster(
    instance: dg.DagsterInstance, accepted: Journey
) -> None:
    waits = status(accepted.submission, store=accepted.store).start
    names = [each.name for each in waits]
    assert (names[0], names[-1]) == ("start", "first step")
    assert {"reading inputs", "loading libraries", "loading model"} <= set(names)
    shown = instance.get_latest_materialization_event(dg.AssetKey("checkpoint")).asset_materialization.metadata
    assert shown["first_step_after_s"].value == pytest.approx(sum(each.seconds for each in waits))


def test_running_the_same_pair_again_trains_nothing(project: Project, accepted: Journey) -> None:
    again = project.tune(accepted.dataset, accepted.recipe, actor="bob")
    assert again.outcome.adapter == accepted.adapter
    request = identity.checkpoint_request(Artifacts(project.store), accepted.dataset, accepted.recipe)
    assert len(attempts_at(project.store, request.address)) == 1


def test_adding_the_same_bytes_again_is_the_same_version(project: Project, accepted: Journey) -> None:
    again = project.tune(project.dataset(), project.recipe(), "acme.things")
    assert again.submission.dataset == accepted.dataset


def test_without_gates_the_result_is_kept_as_ungated_and_is_no_adapter(project: Project, instance, accepted) -> None:
    # Without a suite too: the recipe's section for them is that of a first try, which has none.
    bare = project.recipe("bare.v1", gates="none", evaluation={"suites": []})
    made = project.tune(accepted.dataset, bare)
    assert made.outcome.status is SubmissionStatus.UNGATED, made.outcome.reason
    artifacts = Artifacts(project.store)
    result = artifacts.get(Address.parse(made.outcome.adapter))
    assert result.address.asset == "ungated"
    assert {"adapter_model.safetensors", "tokenizer.json", "lineage.json"} <= set(result.manifest.files)
    card = result.read("README.md").decode()
    assert "**Ungated" in card
    assert "passed every gate" not in card
    assert result.facts["metrics"]["perplexity"]["candidate"] < result.facts["metrics"]["perplexity"]["base"]
    event = instance.get_latest_materialization_event(dg.AssetKey("adapter"))
    assert "ungated" in event.asset_materialization.metadata["verdict"].value
    # The training is that of the recipe with gates; nothing of the other adapter's line has changed.
    judged = artifacts.get(Address.parse(accepted.adapter))
    assert result.manifest.inputs["checkpoint"] == judged.manifest.inputs["checkpoint"]
    assert [str(each.address) for each in list_adapters(store=project.store)] == [accepted.adapter]
    assert status(made.submission.id, store=project.store).state == "ungated"
    for target in (made.outcome.adapter, f"{accepted.dataset}|bare.v1"):
        with pytest.raises(UserError, match="is ungated"):
            promote(target, "dev", reason="it is good", store=project.store)


def test_a_candidate_that_fails_a_gate_is_rejected_with_reasons_in_any_run(
    project: Project, instance: dg.DagsterInstance, rejected: Journey
) -> None:
    submission = find_submission(rejected.store, "acme", rejected.submission)
    assert submission is not None
    outcome = find_outcome(rejected.store, submission)
    assert outcome is not None
    assert outcome.status is SubmissionStatus.REJECTED
    assert "task_gain" in outcome.reason
    artifacts = Artifacts(project.store)
    request = identity.adapter_request(artifacts, rejected.dataset, rejected.recipe)
    assert artifacts.find(request.address) is None
    # The same training was not done twice: only the gates differ.
    checkpoint = identity.checkpoint_request(artifacts, rejected.dataset, rejected.recipe)
    assert len(attempts_at(project.store, checkpoint.address)) == 1
    # So in a separate run of the adapter alone, which no check precedes.
    alone = build_definitions(project.store_url).resolve_job_def("train_pair")
    run = alone.execute_in_process(
        instance=instance, partition_key=rejected.pair, asset_selection=[dg.AssetKey("adapter")], raise_on_error=False
    )
    assert not run.success
    assert run.get_asset_materialization_events() == []
    assert artifacts.find(request.address) is None


def test_a_run_that_nobody_submitted_is_recorded_as_a_submission(project: Project, instance, accepted: Journey) -> None:
    job = build_definitions(project.store_url).resolve_job_def("train_pair")
    run = job.execute_in_process(instance=instance, partition_key=accepted.pair)
    (direct,) = [s for s in all_submissions(project.store, "acme") if s.run_id == run.run_id]
    assert (direct.origin, direct.driver, direct.recipe) == ("ui", "run", "tiny.v1")


def test_the_gates_of_both_pairs_are_in_the_event_log(instance: dg.DagsterInstance) -> None:
    records = instance.event_log_storage.get_asset_check_execution_history(
        check_key=dg.AssetCheckKey(dg.AssetKey("eval_report"), "task_gain"), limit=10
    )
    by_partition = {record.partition: record.status.value for record in records}
    assert by_partition["acme.things.v1|tiny.v1"] == "SUCCEEDED"
    assert by_partition["acme.things.v1|greedy.v1"] == "FAILED"


def test_no_check_is_red_but_a_failed_gate_and_none_is_left_open(
    instance: dg.DagsterInstance, project: Project
) -> None:
    # What the UI adds up to "4 / 5 Passed": any partition that failed, was skipped or is open counts against a check.
    defs = build_definitions(project.store_url)
    graph = defs.resolve_asset_graph()
    specs = {key: graph.get_check_spec(key) for key in graph.asset_check_keys}
    assert {"serve_parity", "task_gain", "review"} <= {key.name for key in specs}
    for run in instance.get_runs():
        assert (run.status is dg.DagsterRunStatus.FAILURE) == (run.tags.get("ft/verdict") == "rejected")
    with dg.partition_loading_context(dynamic_partitions_store=instance):
        states = instance.event_log_storage.get_asset_check_state([(key, specs[key].partitions_def) for key in specs])
    for key, state in states.items():
        shown = {status.value: subset.value.get_partition_keys() for status, subset in state.subsets.items()}
        found = {status for status, partitions in shown.items() if partitions}
        bad = {"acme.things.v1|greedy.v1"} if key.name == "task_gain" else set()
        assert found == {"SUCCEEDED", *(["FAILED"] if bad else [])}, key
        assert set(shown.get("FAILED", [])) == bad


def test_the_pair_was_one_submission_with_an_end(accepted: Journey) -> None:
    (first,) = [each for each in all_submissions(accepted.store, "acme") if each.recipe == accepted.recipe]
    assert first.id == accepted.submission
    assert first.origin == "python"
    assert first.actor == "ann"


def test_a_missing_verdict_stops_the_adapter(project: Project, instance: dg.DagsterInstance) -> None:
    unseen = project.recipe("unseen.v1", training={"seed": 99})
    register_recipe(project.store, unseen, actor="ann")
    list_keys(instance, dataset="acme.things.v1", recipe="unseen.v1")
    run = (
        build_definitions(project.store_url)
        .resolve_job_def("train_pair")
        .execute_in_process(
            instance=instance,
            partition_key="acme.things.v1|unseen.v1",
            asset_selection=[dg.AssetKey("adapter")],
            raise_on_error=False,
        )
    )
    assert not run.success
    failures = [event for event in run.all_node_events if event.is_step_failure]
    assert "has not been materialized" in str(failures[0].step_failure_data.error)


def test_a_senseless_pair_is_refused_before_any_work(project: Project, accepted: Journey) -> None:
    before = sorted(entry.path for entry in project.store.entries("acme"))
    theirs = project.recipe("globex.tiny.v1")
    with pytest.raises(UserError, match="belongs to tenant 'globex'"):
        project.tune(accepted.dataset, theirs)
    assert sorted(entry.path for entry in project.store.entries("acme")) == before


def test_what_the_docs_say_of_python_materializes_a_pair_that_was_not_listed(
    project: Project, accepted: Journey, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs/how-to/dagster.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    code = code.replace("acme.tickets.v1", accepted.dataset).replace("support.v1", accepted.recipe)
    monkeypatch.setattr("ft_assets.definitions.defs", build_definitions(project.store_url))
    with dg.DagsterInstance.ephemeral() as fresh:
        monkeypatch.setattr(dg.DagsterInstance, "get", lambda: nullcontext(fresh))
        ran: dict[str, Any] = {}
        exec(code, ran)
        assert ran["done"].success
        assert fresh.get_dynamic_partitions("recipe") == [accepted.recipe]
        assert [str(key) for key in fresh.get_materialized_partitions(dg.AssetKey("adapter"))] == [accepted.pair]
