"""Places in Dagster's queue: by the tenant's tier, rising with the wait, and held back from who comes first."""

import time
from typing import Any

import dagster as dg
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.submissions.plan import Launch, Stage
from ft_assets.graph.queueing import QueuedRun, plan_tags, tier_tags
from ft_assets.graph.run import launch_tags
from ft_assets.settings import tags
from ft_assets.settings.tenants import Tenant, TenantsFile, Tier, load_tenants
from ft_resources.dagster_resources import LauncherResource
from ft_sensors.ageing import age_runs, ageing_sensor
from tests.dagster_private import (
    QueuedRunCoordinatorDaemon,
    RegisteredCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
    create_run_for_test,
)
from tests.e2e.project import ROOT, Project
from tests.made import made_submission
from tests.sensors.conftest import look, say

HOUR = 3600.0
TENANTS = TenantsFile(
    tiers={"premium": Tier(priority="production"), "free": Tier(priority="interactive")},
    tenants={"acme": Tenant(tier="premium"), "tiny": Tenant(tier="free")},
)


def place(tenant: str, waited_h: float = 0.0) -> int:
    return int(tier_tags(TENANTS, tenant, trains=True, waited_s=waited_h * HOUR)[tags.PRIORITY])


def queued(**changes: Any) -> QueuedRun:
    return QueuedRun(**{"run_id": "r", "tenant": "globex", "trains": True, "tags": {}, "waited_s": 0.0, **changes})


def _origin() -> RemoteJobOrigin:
    place = RegisteredCodeLocationOrigin(location_name="ft")
    repository = RemoteRepositoryOrigin(code_location_origin=place, repository_name="r")
    return RemoteJobOrigin(repository_origin=repository, job_name="train_pair")


def test_places_are_by_tier_and_rise_with_the_wait_and_a_training_says_its_tier_and_yields() -> None:
    assert tier_tags(TENANTS, "tiny", trains=True).items() >= {tags.TRAINS_TIER: "free", tags.YIELDS: "true"}.items()
    premium = tier_tags(TENANTS, "acme", trains=True)
    assert premium[tags.TRAINS_TIER] == "premium"
    assert tags.YIELDS not in premium
    assert set(tier_tags(TENANTS, "tiny", trains=False)) == {tags.PRIORITY}
    assert place("tiny") < place("globex") < place("acme")
    assert place("globex", 9) < place("acme")
    assert place("acme") < place("globex", 13) < place("acme", 5)
    assert place("tiny", 99) < place("acme")


@given(waited=st.floats(0, 1e7), has=st.none() | st.integers(-1000, 1000), tagged=st.booleans())
def test_a_place_is_never_lowered_and_a_second_look_adds_nothing(waited: float, has: int | None, tagged: bool) -> None:
    before = {tags.PRIORITY: str(has)} if has is not None else {}
    before |= {tags.TRAINS_TIER: "gold"} if tagged else {}
    added = plan_tags([queued(tags=before, waited_s=waited)], TENANTS).get("r", {})
    after = before | added
    assert int(after[tags.PRIORITY]) >= (-100 if has is None else has)
    assert after[tags.TRAINS_TIER] == ("gold" if tagged else "default")
    assert plan_tags([queued(tags=after, waited_s=waited)], TENANTS) == {}


def test_dagsters_limits_hold_back_who_yields_and_leave_places_to_the_first_and_to_curation() -> None:
    runs = yaml.safe_load((ROOT / "dagster.yaml").read_text())["concurrency"]["runs"]
    limits = {(each["key"], each["value"]): each["limit"] for each in runs["tag_concurrency_limits"]}
    assert limits[tags.YIELDS, "true"] < limits[tags.TRAINS, "true"] < runs["max_concurrent_runs"]


@pytest.fixture
def tenants(project: Project) -> None:
    text = "tiers: {premium: {priority: production}}\ntenants: {acme: {tier: premium}}\n"
    (project.folder / "tenants.yaml").write_text(text)


@pytest.mark.usefixtures("tenants")
def test_a_launched_run_carries_its_tier() -> None:
    launch = Launch(submission=made_submission(dataset="acme.things.v1"), stage=Stage.TRAIN_PAIR)
    assert launch_tags(launch, load_tenants())[tags.TRAINS_TIER] == "premium"


@pytest.mark.usefixtures("tenants")
def test_of_more_runs_than_a_tick_looks_at_those_that_have_waited_longest_are_looked_at(instance, monkeypatch) -> None:
    monkeypatch.setattr("ft_sensors.ageing._RUNS", 2)
    first, second, third = (
        create_run_for_test(
            instance,
            job_name="train_pair",
            status=dg.DagsterRunStatus.QUEUED,
            tags={"dagster/partition": f"acme.things.v{number}|tiny.v1"},
            remote_job_origin=_origin(),
        ).run_id
        for number in (1, 2, 3)
    )
    assert "checked 2 queued runs: 2 retagged" in age_runs(instance)[0]
    tagged = {run.run_id for run in instance.get_runs() if tags.PRIORITY in run.tags}
    assert tagged == {first, second}
    assert third not in tagged


@pytest.mark.usefixtures("tenants")
def test_queued_runs_rise_in_dagsters_own_order(instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:

    def queue(tenant: str) -> str:
        run = create_run_for_test(
            instance,
            job_name="train_pair",
            status=dg.DagsterRunStatus.QUEUED,
            tags={"dagster/partition": f"{tenant}.things.v1|tiny.v1"},
            remote_job_origin=_origin(),
        )
        return run.run_id

    def order() -> list[str]:
        daemon = QueuedRunCoordinatorDaemon(interval_seconds=5)
        waiting = instance.get_runs(filters=dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED]))
        return [run.run_id for run in daemon._priority_sort(waiting)]

    low, high = queue("globex"), queue("acme")
    ended = create_run_for_test(instance, job_name="train_pair", tags={"dagster/partition": "acme.things.v1|tiny.v1"})
    assert "checked 2 queued runs: 2 retagged" in age_runs(instance)[0]
    assert order() == [high, low]
    assert "0 retagged" in age_runs(instance)[0]
    ahead = time.time() + 13 * HOUR
    monkeypatch.setattr("ft_sensors.ageing.time.time", lambda: ahead)
    instance.add_run_tags(high, {tags.PRIORITY: "100"})
    age_runs(instance)
    found = {run.run_id: run.tags for run in instance.get_runs()}
    assert int(found[low][tags.PRIORITY]) > 100
    assert tags.TRAINS_TIER not in found[ended.run_id]


def test_a_tick_says_what_it_looked_at_and_why_it_could_not(instance: dg.DagsterInstance, project: Project) -> None:
    found = look(project, instance, ageing_sensor, launcher=LauncherResource())
    assert found.skip_message == "nothing to do: checked 0 queued runs: 0 retagged"
    (project.folder / "tenants.yaml").write_text("tiers: 7")
    assert "run priorities are unchanged" in say(project, instance, ageing_sensor, launcher=LauncherResource())
