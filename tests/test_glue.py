"""What a run adds to the work that it asks for: the priority of the tier that asks, and nothing of the result."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from ft_assets.graph.glue import run_work
from ft_assets.settings import tags
from ft_resources.artifacts import Artifacts
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.execution import RunResult
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from ft_resources.work import Priority, Resources, WorkRequest

TENANTS = """
tiers: {premium: {priority: production}, free: {priority: interactive}}
tenants: {acme: {tier: premium}, globex: {tier: free}, initech: {}}
"""


@dataclass
class Asked:
    """An execution that makes what it is asked for at once, and keeps how it was asked."""

    store: Store
    folder: Path
    requests: list[WorkRequest] = field(default_factory=list)

    def run(self, request: WorkRequest, *, actor: str, observer: Any) -> RunResult:
        self.requests.append(request)
        self.folder.mkdir(exist_ok=True)
        (self.folder / "text.txt").write_text("x")
        publish = Artifacts(self.store).publish
        made = publish(request.address, self.folder, writer="w1", identity=request.identity, facts={}, actor=actor)
        return RunResult(artifact=made, cached=False, attempts=1)


def request(tenant: str, priority: Priority | None = None) -> WorkRequest:
    return WorkRequest(
        asset="dataset",
        tenant=tenant,
        code_version="1",
        inputs={},
        params={},
        label="x",
        resources=Resources(gpus=2, priority=priority),
    )


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., WorkRequest]:
    """What is asked for in the end when a run with these tags asks for a piece of work."""
    monkeypatch.setenv("FT_TRACKING", "off")
    monkeypatch.setenv("FT_TENANTS", str(tmp_path / "tenants.yaml"))
    (tmp_path / "tenants.yaml").write_text(TENANTS)
    execution = Asked(open_store(str(tmp_path / "store"), create=True), tmp_path / "made")
    monkeypatch.setattr(LauncherResource, "execution", lambda self, store: execution)

    def ask(wanted: WorkRequest, **run_tags: str) -> WorkRequest:
        @dg.asset
        def work(context: dg.AssetExecutionContext, store: StoreResource, launcher: LauncherResource) -> None:
            run_work(context, store, launcher, wanted)

        resources = {"store": StoreResource(url=execution.store.url), "launcher": LauncherResource()}
        with dg.DagsterInstance.ephemeral() as instance:
            assert dg.materialize([work], resources=resources, tags=run_tags, instance=instance).success
        return execution.requests[-1]

    return ask


@pytest.mark.parametrize(
    ("tenant", "priority"),
    [("acme", "production"), ("globex", "interactive"), ("initech", "batch"), ("unnamed", "batch")],
)
def test_work_has_the_priority_of_its_tenants_tier_and_is_the_same_work(
    asked: Callable[..., WorkRequest], tenant: str, priority: str
) -> None:
    found = asked(request(tenant))
    assert found.resources == Resources(gpus=2, priority=priority)  # type: ignore[arg-type]
    assert found.address == request(tenant).address


def test_what_is_shared_has_the_priority_of_who_asks_for_it(asked: Callable[..., WorkRequest]) -> None:
    assert asked(request("shared"), **{tags.TENANT: "acme"}).resources.priority == "production"
    assert asked(request("shared"), **{tags.TENANT: "globex"}).resources.priority == "interactive"
    assert asked(request("shared")).resources.priority is None


def test_a_tenants_own_work_has_its_own_tiers_priority_whoever_asks(asked: Callable[..., WorkRequest]) -> None:
    assert asked(request("globex"), **{tags.TENANT: "acme"}).resources.priority == "interactive"


def test_a_priority_that_was_asked_for_is_kept(asked: Callable[..., WorkRequest]) -> None:
    assert asked(request("acme", "interactive")).resources.priority == "interactive"


def test_a_tenants_file_that_cannot_be_read_stops_no_work(asked: Callable[..., WorkRequest], tmp_path: Path) -> None:
    (tmp_path / "tenants.yaml").write_text("tiers: [")
    assert asked(request("acme")).resources.priority is None
