"""Subscribed lines are trained on what is new: a version of their dataset, or a base that moved."""

import dagster as dg
import pytest

from ft_assets.api import restore_recipe, retire_recipe
from ft_assets.control.lines.lines import fold
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.records.submissions import open_submissions
from ft_resources.dagster_resources import HubResource
from ft_sensors.base_revisions import base_revision_sensor
from ft_sensors.retraining import retraining_sensor
from tests.control.lines.promotable import made_record
from tests.e2e.project import Project
from tests.fake_base import make_fake_base
from tests.fake_hub import FakeHub
from tests.made import submitted
from tests.sensors.conftest import add_version, look, register, say, subscribe

pytestmark = pytest.mark.dagster

NOTHING, ONE = (f"checked 1 subscribed lines: {number} submitted" for number in (0, 1))
V1, V2 = ("acme.things.v1", "tiny.v1", "sensor"), ("acme.things.v2", "tiny.v1", "sensor")


def tick(instance: dg.DagsterInstance, project: Project) -> str:
    """What the retraining sensor says it looked at."""
    return say(project, instance, retraining_sensor)


def wanted(project: Project) -> set[tuple[str, str, str]]:
    return {(s.dataset, s.recipe, s.origin) for s in open_submissions(project.store)}


@pytest.fixture
def subscribed(project: Project) -> Project:
    """The project with a line that acme subscribes to, and a version that nobody trained on."""
    register(project)
    subscribe(project, "tiny.v1")
    add_version(project)
    return project


def test_a_new_version_of_a_subscribed_dataset_is_submitted_once_also_by_a_rebuilt_instance(project, instance) -> None:
    register(project)
    subscribe(project, "tiny.v1")
    assert tick(instance, project) == NOTHING
    add_version(project)
    # The tick shows the runs that it starts, as the submissions sensor would launch them next.
    begun = look(project, instance, retraining_sensor).run_requests
    assert {(each.job_name, each.partition_key) for each in begun} == {
        ("prepare_dataset", "acme.things.v1"),
        ("prepare_recipe", "tiny.v1"),
    }
    (submission,) = open_submissions(project.store)
    assert all(submission.id in each.run_key for each in begun)
    assert look(project, instance, retraining_sensor).skip_message.startswith(f"nothing to do: {NOTHING}")
    add_version(project, rows=170)
    assert tick(instance, project) == ONE
    assert wanted(project) == {V1, V2}
    with dg.DagsterInstance.ephemeral() as fresh:
        assert tick(fresh, project) == NOTHING


def test_a_retired_recipe_is_left_alone_until_it_is_taken_back(subscribed: Project, instance) -> None:
    retire_recipe("tiny.v1", note="too slow", store=subscribed.store, actor="ann")
    assert tick(instance, subscribed) == "checked 0 subscribed lines: 0 submitted"
    restore_recipe("tiny.v1", note="fast again", store=subscribed.store, actor="ann")
    assert tick(instance, subscribed) == ONE


def test_what_somebody_asked_for_by_hand_is_not_asked_again(subscribed: Project, instance) -> None:
    submitted(subscribed.store)
    assert tick(instance, subscribed) == NOTHING


def test_the_daily_budget_holds_over_all_lines(project: Project, instance) -> None:
    for number in range(1, 4):
        register(project, f"tiny.v{number}", steps=number)
    subscribe(project, "tiny.v1", "tiny.v2", "tiny.v3", per_day=2)
    add_version(project)
    assert tick(instance, project).endswith("2 submitted; 1 are queued for tomorrow's budget of 2")
    assert tick(instance, project).endswith("0 submitted; 1 are queued for tomorrow's budget of 2")
    assert len(wanted(project)) == 2


def test_a_subscription_that_cannot_be_submitted_is_named_and_takes_no_budget(subscribed: Project, instance) -> None:
    """A recipe that was never registered ended the tick, and took a slot of the day's budget with each one."""
    subscribe(subscribed, "missing.v1", "other.tiny.v1", "tiny.v1", per_day=1)
    said = tick(instance, subscribed)
    for words in ("1 submitted", "there is no recipe 'missing.v1'", "belongs to tenant 'other'"):
        assert words in said
    assert wanted(subscribed) == {V1}


def test_a_tenants_file_that_means_nothing_stops_nothing_and_is_named(project: Project, instance) -> None:
    (project.folder / "tenants.yaml").write_text("tenants:\n  acme:\n    subscription: []\n")
    assert "did you mean 'subscriptions'?" in tick(instance, project)


def test_a_line_that_its_tenant_may_not_train_is_named_and_takes_nothing_of_the_budget(subscribed, instance) -> None:
    file = subscribed.folder / "tenants.yaml"
    allowed = file.read_text()
    file.write_text(f"{allowed}deprecated_methods: [lora]\n")
    for _ in range(3):
        assert "0 submitted; acme.things.v1 with tiny.v1: sft/lora is deprecated" in tick(instance, subscribed)
    assert list(subscribed.store.entries("retrainings")) == []
    file.write_text(allowed)
    assert "1 submitted" in tick(instance, subscribed)


UNMOVED, MOVED = "checked 1 recipes in use: 0 bases moved", "checked 1 recipes in use: 1 bases moved (tiny.v2)"


def tick_bases(instance: dg.DagsterInstance, project: Project) -> str:
    return say(project, instance, base_revision_sensor, hub=HubResource())


def move(project: Project, hub: FakeHub) -> str:
    """Commit another base to the hub."""
    return hub.commit("org/tiny", make_fake_base(project.folder / "patched", seed=7))


@pytest.fixture
def on_hub(project: Project, hub: FakeHub) -> Project:
    """As ``subscribed``, with a recipe on a base of the hub."""
    register(project, hub=hub)
    subscribe(project, "tiny.v1")
    add_version(project)
    return project


def test_a_moved_base_registers_a_successor_and_its_lines_are_submitted(on_hub, instance, hub) -> None:
    tick(instance, on_hub)
    assert tick_bases(instance, on_hub) == UNMOVED
    locked = get_recipe(on_hub.store, "tiny.v1").lock
    commit = move(on_hub, hub)
    assert tick_bases(instance, on_hub) == MOVED
    assert tick_bases(instance, on_hub) == UNMOVED
    # The old recipe means what it meant; the new one is locked to the new commit.
    assert get_recipe(on_hub.store, "tiny.v1").lock == locked
    assert get_recipe(on_hub.store, "tiny.v2").lock.revision == commit
    tick(instance, on_hub)
    assert wanted(on_hub) == {V1, ("acme.things.v1", "tiny.v2", "sensor")}


def test_lines_of_a_successor_wait_until_it_is_known_who_depends_on_the_old_base(
    on_hub, instance, hub, monkeypatch
) -> None:
    """A sensor process that dies between registering and recording is made good by its next tick."""
    move(on_hub, hub)
    with monkeypatch.context() as dying:
        dying.setattr("ft_assets.api.base_bumps.record_bump", lambda *_, **__: None)
        tick_bases(instance, on_hub)
    assert tick(instance, on_hub) == NOTHING
    tick_bases(instance, on_hub)
    assert tick(instance, on_hub) == ONE
    assert wanted(on_hub) == {("acme.things.v1", "tiny.v2", "sensor")}


def test_a_base_that_moved_without_a_change_that_counts_has_no_successor(on_hub, instance, hub) -> None:
    (on_hub.folder / "base" / "README.md").write_text("a typo less")
    hub.commit("org/tiny", on_hub.folder / "base")
    assert tick_bases(instance, on_hub) == UNMOVED
    # A commit that was looked at is not fetched again with every tick.
    downloads = len(hub.downloads)
    assert tick_bases(instance, on_hub) == UNMOVED
    assert len(hub.downloads) == downloads


def test_a_base_that_is_gone_does_not_hide_the_others(on_hub: Project, instance, hub: FakeHub) -> None:
    hub.commit("org/other", on_hub.folder / "base")
    register(on_hub, "other.v1", hub=hub, base="hub:org/other@main")
    subscribe(on_hub, "other.v1", "tiny.v1")
    del hub.branches["org/other", "main"]
    move(on_hub, hub)
    message = tick_bases(instance, on_hub)
    assert "1 bases moved (tiny.v2)" in message
    assert "other.v1: the hub has no such model" in message


def test_a_recipe_whose_adapter_is_served_is_looked_at_though_nobody_subscribes_to_it(
    on_hub, instance, hub, monkeypatch
) -> None:
    (on_hub.folder / "tenants.yaml").write_text("{}")
    assert tick_bases(instance, on_hub) == "checked 0 recipes in use: 0 bases moved"
    served = fold("acme.things.tiny", [made_record(stage="staging", recipe="tiny.v1")])
    monkeypatch.setattr("ft_assets.api.base_bumps.list_lines", lambda store: [served.line])
    monkeypatch.setattr("ft_assets.api.base_bumps.read_line", lambda store, line: served)
    move(on_hub, hub)
    assert tick_bases(instance, on_hub) == MOVED
