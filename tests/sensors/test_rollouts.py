"""Rollouts go on by themselves, and old outcomes go."""

from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
import yaml

from ft_assets import api
from ft_assets.control.lines.lines import read_line
from ft_assets.control.lines.promotion import promote
from ft_assets.control.rollouts.asked import Wish, start
from ft_assets.control.rollouts.rollouts import RolloutRecord, read_rollouts
from ft_assets.records.outcomes import KEPT_DAYS, read_outcomes
from ft_resources.artifacts import Artifact, Artifacts
from ft_sensors.rollouts import rollouts_sensor
from tests.cli.test_lines import adapters as adapters
from tests.control.lines.promotable import LINE, SERVED, decided
from tests.control.rollouts.made import leave_outcomes, outcome, traffic
from tests.e2e.project import Project
from tests.sensors.conftest import say

pytestmark = pytest.mark.dagster

NOW = datetime.now(UTC)
HOUR = timedelta(hours=1)


def begin(project: Project, adapters: list[Artifact]) -> RolloutRecord:
    artifacts, margins = Artifacts(project.store), {"thumbs": 0.2}
    promote(artifacts, str(adapters[0].address), "production", decided())
    wish = Wish(candidate=str(adapters[1].address), steps=(5, 100), minimum=50, outcomes=("thumbs",), margins=margins)
    return start(artifacts, LINE, wish, decided(), now=NOW - HOUR)


@pytest.fixture
def started(project: Project, adapters: list[Artifact]) -> RolloutRecord:
    """A rollout that began an hour ago, one step before production."""
    return begin(project, adapters)


def tick(project: Project) -> str:
    with dg.DagsterInstance.ephemeral() as instance:
        return say(project, instance, rollouts_sensor)


def serve(project: Project, started: RolloutRecord, good: tuple[float, float]) -> None:
    seen = traffic(started.candidate, started.incumbent, good=good, n=300, begin=NOW - HOUR)
    leave_outcomes(project.store, seen)


def test_a_good_candidate_goes_to_production(project: Project, adapters: list[Artifact]) -> None:
    assert tick(project) == "checked 0 open rollouts: 0 changes"
    begun = begin(project, adapters)
    assert tick(project) == "checked 1 open rollouts: 0 changes"
    serve(project, begun, (0.9, 0.9))
    assert tick(project) == "checked 1 open rollouts: 1 changes"
    assert read_line(project.store, LINE).at("production").adapter == begun.candidate
    assert tick(project) == "checked 0 open rollouts: 0 changes"


def test_what_comes_to_staging_begins_by_itself_where_the_line_says_so(project, adapters) -> None:
    path = project.folder / "tenants.yaml"
    rollouts = {"automatic": True, "steps": [5, 100], "outcomes": ["thumbs"]}
    tenant, _, name = LINE.partition(".")
    file = {**SERVED.model_dump(mode="json", include={"served_bases"})}
    path.write_text(yaml.safe_dump({**file, "tenants": {tenant: {"lines": {name: {"rollouts": rollouts}}}}}))
    artifacts = Artifacts(project.store)
    promote(artifacts, str(adapters[0].address), "production", decided())
    assert tick(project) == "checked 0 open rollouts: 0 changes"
    promote(artifacts, str(adapters[1].address), "staging", decided())
    assert tick(project) == "checked 1 open rollouts: 1 changes"
    assert read_rollouts(project.store, LINE).open.started.candidate == adapters[1].ref


def test_a_line_that_cannot_be_read_holds_up_no_other(project: Project, started: RolloutRecord) -> None:
    serve(project, started, (0.9, 0.9))
    project.store.create("acme/rollouts/acme.things.other/000001.json", b"{}")
    assert tick(project) == "checked 1 open rollouts: 1 changes"


def test_old_outcomes_go_once_a_day_but_not_those_of_an_open_rollout(project: Project, started: RolloutRecord) -> None:
    days = [NOW - timedelta(days=KEPT_DAYS + 2), NOW - timedelta(days=KEPT_DAYS - 2)]
    leave_outcomes(project.store, [outcome(started.incumbent, 1.0, day) for day in days])
    copied = [f"acme/shadows/{LINE}/{day.date()}" for day in days]
    for folder in copied:
        project.store.create(f"{folder}/0000-one-1.jsonl", b"")

    def step(after: str) -> str:
        return api.advance_rollouts(after=after, store=project.store, tenants=SERVED).after

    def kept() -> int:
        return sum(each.kind == "thumbs" for each in read_outcomes(project.store, LINE, "2000", "3000"))

    today = step("")
    assert kept() == 1
    assert [len(project.store.names(folder)) for folder in copied] == [0, 1]
    leave_outcomes(project.store, [outcome(started.incumbent, 1.0, days[0])], server="late")
    assert step(today) == today
    assert kept() == 2
    # As if the rollout had begun before the older one.
    began = started.model_copy(update={"at": (days[0] - HOUR).isoformat(), "seal": ""})
    project.store.put(started.path, began.data())
    step("")
    assert kept() == 2


def test_rollouts_that_cannot_be_read_keep_the_outcomes_of_their_own_line_and_no_others(project, started) -> None:
    """Whatever came after such a line was kept for ever, and the cleaning began anew every minute."""
    old = NOW - timedelta(days=KEPT_DAYS + 2)
    leave_outcomes(project.store, [outcome(started.incumbent, 1.0, old)])
    project.store.create("acme/rollouts/acme.alone.first/000001.json", b"{}")
    folder = f"acme/outcomes/acme.alone.first/{old.date()}"
    project.store.create(f"{folder}/0000-one-1.jsonl", b"")
    found = api.advance_rollouts(store=project.store, tenants=SERVED)
    assert found.after
    assert not list(read_outcomes(project.store, LINE, "2000", "3000"))
    assert project.store.names(folder)
    assert any(each.startswith("acme.alone.first: its old outcomes stay: ") for each in found.warnings)
