"""The orphans sensor's own tick, on a cluster and with a real Dagster instance."""

from collections.abc import Callable, Iterator

import dagster as dg
import pytest
import yaml

from ft_assets.control import identity
from ft_assets.control.submissions import sharing
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.outcomes import Outcome
from ft_resources.store_marker import open_store
from ft_sensors.orphans import orphans_sensor
from tests.cluster.fixtures import until
from tests.dagster_private import create_run_for_test
from tests.resources.launchers.conftest import OnCluster
from tests.resources.small_work import outcome

pytestmark = pytest.mark.cluster
Tick = Callable[[], str]


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as found:
        yield found


@pytest.fixture
def tick(on_cluster: OnCluster, instance: dg.DagsterInstance, tmp_path, monkeypatch: pytest.MonkeyPatch) -> Tick:
    """A tick of a daemon that knows the cluster by its settings file and kubeconfig alone, and has no patience."""
    open_store(on_cluster.store.url, create=True)
    file = tmp_path / "kubernetes.yaml"
    file.write_text(yaml.safe_dump(on_cluster.settings().model_dump(mode="json")))
    monkeypatch.setenv("FT_LAUNCHER", "kubernetes")
    monkeypatch.setenv("KUBECONFIG", str(on_cluster.access.kubeconfig))
    monkeypatch.setattr("ft_resources.kubernetes.orphans.MARGIN_S", 0.0)
    monkeypatch.setattr("ft_resources.kubernetes.orphans.UNWANTED_S", 0.0)

    def look() -> str:
        context = dg.build_sensor_context(instance=instance)
        launcher = LauncherResource(settings=str(file))
        found = orphans_sensor(context, store=StoreResource(url=on_cluster.store.url), launcher=launcher)
        assert isinstance(found, dg.SkipReason)
        return str(found.skip_message)

    return look


def test_a_tick_closes_what_ended_without_a_word_and_the_next_finds_nothing(on_cluster: OnCluster, tick: Tick) -> None:
    _, attempt = on_cluster.launched(on_cluster.place().request("fail", how="killed", times=9))
    until(lambda: (on_cluster.job(attempt) or {}).get("status", {}).get("failed"))
    assert tick() == "worked: checked 1 Jobs: 1 that no run waits for"
    assert outcome(attempt) is Outcome.PREEMPTED
    assert attempt.place() is not None
    assert "0 that no run waits for" in tick()


def test_a_tick_leaves_the_job_of_a_run_alone_and_stops_it_once_the_run_is_over(
    on_cluster: OnCluster, tick: Tick, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The fake work counts as work that submissions may need: what the platform does not know, it leaves alone.
    monkeypatch.setitem(sharing._REQUESTS, "write", (("dataset",), [identity.dataset_request]))
    request = on_cluster.work(held=1)
    _, attempt = on_cluster.launched(request)
    on_cluster.place().begun(request)
    wanted = {"dagster/partition": request.label}
    run = create_run_for_test(instance, status=dg.DagsterRunStatus.STARTED, tags=wanted)
    assert "0 that no run waits for" in tick()
    instance.report_run_canceled(run)
    assert "1 that no run waits for" in tick()
    assert outcome(attempt) is Outcome.CANCELLED
    until(lambda: on_cluster.job(attempt) is None and not on_cluster.pods(attempt))


def test_without_a_cluster_a_tick_says_why_it_does_nothing(
    tick: Tick, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    assert "could not be read" in tick()
    monkeypatch.setenv("FT_LAUNCHER", "local")
    assert "workers run on this machine" in tick()
