"""Held versions: what stops their use, what lets them through, and for how long."""

import pickle
from collections.abc import Callable
from typing import Any

import dagster as dg
import pytest

from ft_assets.control import identity
from ft_assets.control.identity.approvals import require_approved
from ft_assets.control.identity.review import approve, review_of
from ft_assets.control.registry.versions import DatasetVersion, add_dataset_version
from ft_assets.graph.assets.datasets import dataset
from ft_assets.graph.checks.datasets import REVIEW, dataset_review, partition_verdict, report_review
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_assets.settings.dataset.policy import DatasetPolicy, MixSettings
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.errors import BadData, CorruptArtifact, HeldForReview, MissingInput, UserError
from ft_resources.store import Store
from tests.curated import LEAK, leave_dataset
from tests.workers.datasets.conftest import WriteRows, pair

KEY = "acme.facts.v1"
SECRETS = "2 rows hold personal data or secrets."
Curate = Callable[..., Artifact]


@pytest.fixture
def version(add: Callable[..., DatasetVersion], write: WriteRows) -> DatasetVersion:
    return add(write([pair(number) for number in range(150)]))


@pytest.fixture
def curate(artifacts: Artifacts, version: DatasetVersion) -> Curate:
    """Leave what a worker would: some bytes, and the reasons to hold them."""

    def leave(held: list[str], rows: bytes = b"rows", key: str = KEY) -> Artifact:
        return leave_dataset(artifacts, key, held, rows)

    return leave


def record_paths(store: Store) -> list[str]:
    return sorted(entry.path for entry in store.entries("acme/reviews"))


def test_what_nothing_holds_is_accepted_and_needs_no_approval(artifacts: Artifacts, curate: Curate) -> None:
    curated = curate([])
    assert review_of(artifacts, KEY).state == "accepted"
    assert identity.approved_dataset(artifacts, KEY).digest == curated.digest
    with pytest.raises(UserError, match="is not held"):
        approve(artifacts, KEY, actor="ann", note="fine")


def test_a_held_version_is_shown_but_not_used_until_somebody_approves_it(artifacts: Artifacts, curate: Curate) -> None:
    curated = curate([LEAK, SECRETS])
    assert identity.dataset(artifacts, KEY).digest == curated.digest
    with pytest.raises(HeldForReview) as error:
        identity.approved_dataset(artifacts, KEY)
    assert error.value.reasons == (LEAK, SECRETS)
    assert LEAK in error.value.what
    assert f"ft dataset approve {KEY} --note" in error.value.remedy
    review = review_of(artifacts, KEY)
    assert (review.state, review.reasons, review.record) == ("held", (LEAK, SECRETS), None)

    record = approve(artifacts, KEY, actor="ann", note=" the tests are public \n")
    assert (record.dataset, record.digest, record.reasons) == (KEY, curated.digest, [LEAK, SECRETS])
    assert (record.actor, record.note) == ("ann", "the tests are public")
    assert identity.approved_dataset(artifacts, KEY).digest == curated.digest
    review = review_of(artifacts, KEY)
    assert (review.state, review.reasons, review.record) == ("approved", (LEAK, SECRETS), record)


def test_approving_twice_is_no_error_and_tells_who_did(artifacts: Artifacts, curate: Curate, store: Store) -> None:
    curate([LEAK])
    first = approve(artifacts, KEY, actor="ann", note="looked at")
    assert approve(artifacts, KEY, actor="bob", note="me too") == first
    assert len(record_paths(store)) == 1


def test_what_is_not_there_cannot_be_approved(artifacts: Artifacts, version: DatasetVersion) -> None:
    with pytest.raises(UserError, match="there is no dataset version"):
        approve(artifacts, "acme.facts.v2", actor="ann", note="fine")
    with pytest.raises(MissingInput, match="dataset has not been materialized"):
        approve(artifacts, KEY, actor="ann", note="fine")
    with pytest.raises(MissingInput):
        review_of(artifacts, KEY)


def test_an_approval_says_why(artifacts: Artifacts, curate: Curate, store: Store) -> None:
    curate([LEAK])
    with pytest.raises(UserError, match="needs a note"):
        approve(artifacts, KEY, actor="ann", note="  ")
    assert record_paths(store) == []


@pytest.mark.parametrize(
    ("rows", "held"), [(b"other rows", [LEAK]), (b"rows", [LEAK, SECRETS])], ids=["other rows", "one more reason"]
)
def test_what_is_curated_anew_with_another_result_is_held_anew(
    artifacts: Artifacts, curate: Curate, monkeypatch: pytest.MonkeyPatch, rows: bytes, held: list[str]
) -> None:
    curate([LEAK])
    approve(artifacts, KEY, actor="ann", note="looked at")
    monkeypatch.setitem(CODE_VERSIONS, "dataset", "next")
    curate(held, rows)
    with pytest.raises(HeldForReview):
        identity.approved_dataset(artifacts, KEY)
    assert approve(artifacts, KEY, actor="bob", note="looked again").actor == "bob"
    identity.approved_dataset(artifacts, KEY)


def test_the_same_result_of_newer_code_stays_approved(
    artifacts: Artifacts, curate: Curate, monkeypatch: pytest.MonkeyPatch
) -> None:
    curate([LEAK])
    approve(artifacts, KEY, actor="ann", note="looked at")
    monkeypatch.setitem(CODE_VERSIONS, "dataset", "next")
    curate([LEAK])
    identity.approved_dataset(artifacts, KEY)


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "acme.other.v1"},
        {"digest": "0" * 64},
        {"reasons": []},
        {"reasons": [SECRETS]},
        {"actor": None},
        {"approved": True},
    ],
    ids=lambda change: next(iter(change)),
)
def test_an_altered_or_foreign_approval_lets_nothing_through(
    artifacts: Artifacts, curate: Curate, store: Store, change: dict[str, Any]
) -> None:
    curated = curate([LEAK])
    approve(artifacts, KEY, actor="ann", note="looked at")
    (path,) = record_paths(store)
    store.put_json(path, {**store.get_json(path), **change})
    for use in (
        lambda: identity.approved_dataset(artifacts, KEY),
        lambda: require_approved(artifacts, curated, KEY),
        lambda: review_of(artifacts, KEY),
        lambda: approve(artifacts, KEY, actor="bob", note="fine"),
    ):
        with pytest.raises(CorruptArtifact) as error:
            use()
        assert error.value.where == path


def test_an_approval_of_one_version_is_none_of_another_with_the_same_rows(
    artifacts: Artifacts, curate: Curate, add: Callable[..., DatasetVersion], write: WriteRows
) -> None:
    add(write([pair(number) for number in range(160)], "more.jsonl"))
    first, second = curate([LEAK]), curate([LEAK], key="acme.facts.v2")
    assert first.digest == second.digest
    approve(artifacts, KEY, actor="ann", note="looked at")
    with pytest.raises(HeldForReview, match=r"acme\.facts\.v2"):
        identity.approved_dataset(artifacts, "acme.facts.v2")


def test_a_held_version_cannot_be_mixed_into_another(
    artifacts: Artifacts, curate: Curate, add: Callable[..., DatasetVersion], write: WriteRows
) -> None:
    curate([LEAK])
    policy = DatasetPolicy(mix=(MixSettings(dataset=KEY, share=0.1),))
    mixed = str(add(write([pair(number) for number in range(160)], "more.jsonl"), policy, name="mixed").key)
    with pytest.raises(HeldForReview) as error:
        identity.dataset_request(artifacts, mixed)
    assert error.value.dataset == KEY
    approve(artifacts, KEY, actor="ann", note="looked at")
    assert f"mix:{KEY}" in identity.dataset_request(artifacts, mixed).inputs


def test_the_error_survives_a_process_boundary() -> None:
    error = HeldForReview(KEY, [LEAK, SECRETS])
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.dataset, again.reasons) == (str(error), KEY, (LEAK, SECRETS))


def test_a_version_may_not_have_more_examples_than_the_limit(store: Store, write: WriteRows) -> None:
    file = write([pair(number) for number in range(150)])

    def add_with(limit: int | None) -> DatasetVersion:
        return add_dataset_version(
            store, file, tenant="acme", name="facts", policy=DatasetPolicy(), actor="ann", max_examples=limit
        )

    with pytest.raises(BadData) as error:
        add_with(149)
    assert error.value.what == "150 examples are more than the 149 that acme may have in one dataset version"
    assert "larger tier in tenants.yaml" in error.value.remedy
    assert not list(store.entries("names"))
    assert add_with(150).created


def run(store: Store, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    """One run of the asset and its check; what is curated already is not curated again."""
    instance.add_dynamic_partitions("dataset", [KEY])
    definitions = dg.Definitions(
        assets=[dataset],
        asset_checks=[dataset_review],
        resources={"store": StoreResource(url=store.url), "launcher": LauncherResource()},
    )
    job = definitions.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(instance=instance, partition_key=KEY, raise_on_error=False)


def test_the_check_is_partitioned() -> None:
    (spec,) = dataset_review.check_specs
    assert (spec.name, spec.asset_key) == (REVIEW, dg.AssetKey("dataset"))
    assert spec.partitions_def == dataset.partitions_def


def test_the_check_blocks_with_the_reasons_until_somebody_approves(
    artifacts: Artifacts, curate: Curate, store: Store
) -> None:
    curate([LEAK, SECRETS])
    with dg.DagsterInstance.ephemeral() as instance:
        result = run(store, instance)
        (held,) = result.get_asset_check_evaluations()
        (failed,) = [event.step_failure_data.error for event in result.all_events if event.is_step_failure]
        assert f"{KEY} is held for review: {LEAK}" in failed.message
        assert instance.get_run_by_id(result.run_id).tags["ft/verdict"] == "held"
        assert (held.passed, held.partition) == (False, KEY)
        assert held.metadata["reasons"].value == f"- {LEAK}\n- {SECRETS}"
        assert f"ft dataset approve {KEY}" in str(held.description)
        approve(artifacts, KEY, actor="ann", note="the tests are public")
        result = run(store, instance)
        (approved,) = result.get_asset_check_evaluations()
        assert result.success
        assert "ft/verdict" not in instance.get_run_by_id(result.run_id).tags
        assert approved.passed
        assert approved.metadata["approved_by"].value == "ann"
        assert approved.metadata["note"].value == "the tests are public"


def test_the_check_fails_where_there_is_nothing_to_use(artifacts: Artifacts, version: DatasetVersion) -> None:
    found = partition_verdict(artifacts, KEY)
    assert not found.passed
    assert "has not been materialized" in str(found.description)


def test_an_approval_turns_the_check_green_at_once(artifacts: Artifacts, curate: Curate, store: Store) -> None:
    curate([LEAK])
    check = dg.AssetCheckKey(dg.AssetKey("dataset"), REVIEW)
    with dg.DagsterInstance.ephemeral() as instance:
        # Dagster does not know the partition yet.
        assert not report_review(instance, artifacts, KEY)
        assert instance.event_log_storage.get_asset_check_execution_history(check, limit=10) == []
        run(store, instance)
        approve(artifacts, KEY, actor="ann", note="looked at")
        assert report_review(instance, artifacts, KEY)
        # Dagster takes one evaluation without a run; the approval does not fail by the second.
        assert not report_review(instance, artifacts, KEY)
        # Of the partition's newest materialization: the UI shows any other as not evaluated.
        (info,) = instance.event_log_storage.get_asset_check_partition_info([check])
        assert info.is_current
        (newest, oldest) = instance.event_log_storage.get_asset_check_execution_history(check, limit=10)
    shown = []
    for record in (oldest, newest):
        assert record.event is not None
        assert record.event.dagster_event is not None
        evaluation = record.event.dagster_event.asset_check_evaluation_data
        shown.append((evaluation.passed, evaluation.partition))
    assert shown == [(False, KEY), (True, KEY)]
