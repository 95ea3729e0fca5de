import dagster as dg
import pytest

from ft_assets.api import restore_recipe, retire_recipe
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.submissions.submit import submit
from ft_assets.records.submissions import open_submissions
from ft_assets.settings.tenants import load_tenants
from ft_resources.dagster_resources import HubResource, StoreResource
from ft_sensors.base_revisions import base_revision_sensor
from ft_sensors.retraining import retraining_sensor
from tests.e2e.project import Project
from tests.fake_base import make_fake_base
from tests.fake_hub import FakeHub
from tests.sensors.conftest import add_version, subscribe
from tests.sensors.words import sentence

pytestmark = pytest.mark.dagster


def tick(instance: dg.DagsterInstance, project: Project) -> str:
    """What the retraining sensor says it looked at."""
    context = dg.build_sensor_context(instance=instance)
    reason = retraining_sensor(context, store=StoreResource(url=project.store_url))
    return sentence(reason)


def wanted(project: Project) -> set[tuple[str, str, str]]:
    return {(s.dataset, s.recipe, s.origin) for s in open_submissions(project.store)}


def test_a_new_version_of_a_subscribed_dataset_is_submitted_once(project: Project, instance) -> None:
    register_recipe(project.store, project.recipe(), actor="ann")
    subscribe(project, "tiny.v1")
    assert tick(instance, project) == "checked 1 subscribed lines: 0 submitted"
    add_version(project)
    assert tick(instance, project) == "checked 1 subscribed lines: 1 submitted"
    assert tick(instance, project) == "checked 1 subscribed lines: 0 submitted"
    add_version(project, rows=170)
    tick(instance, project)
    assert wanted(project) == {("acme.things.v1", "tiny.v1", "sensor"), ("acme.things.v2", "tiny.v1", "sensor")}


def test_a_retired_recipe_is_left_alone_until_it_is_taken_back(project: Project, instance) -> None:
    register_recipe(project.store, project.recipe(), actor="ann")
    subscribe(project, "tiny.v1")
    add_version(project)
    retire_recipe("tiny.v1", note="too slow", store=project.store, actor="ann")
    assert tick(instance, project) == "checked 0 subscribed lines: 0 submitted"
    restore_recipe("tiny.v1", note="fast again", store=project.store, actor="ann")
    assert tick(instance, project) == "checked 1 subscribed lines: 1 submitted"


def test_a_tick_that_submitted_says_that_it_worked_and_one_that_did_not_that_there_was_nothing_to_do(
    project: Project, instance: dg.DagsterInstance
) -> None:
    register_recipe(project.store, project.recipe(), actor="ann")
    subscribe(project, "tiny.v1")
    add_version(project)

    def said() -> str:
        context = dg.build_sensor_context(instance=instance)
        return str(retraining_sensor(context, store=StoreResource(url=project.store_url)).skip_message)

    assert said().startswith("worked: checked 1 subscribed lines: 1 submitted")
    assert said().startswith("nothing to do: checked 1 subscribed lines: 0 submitted")


def test_a_rebuilt_instance_submits_nothing_twice(project: Project, instance, tmp_path) -> None:
    register_recipe(project.store, project.recipe(), actor="ann")
    subscribe(project, "tiny.v1")
    add_version(project)
    tick(instance, project)
    with dg.instance_for_test() as fresh:
        assert tick(fresh, project) == "checked 1 subscribed lines: 0 submitted"


def test_what_somebody_asked_for_by_hand_is_not_asked_again(project: Project, instance) -> None:
    register_recipe(project.store, project.recipe(), actor="ann")
    key = add_version(project)
    submit(
        project.store, load_tenants(), dataset=key, recipe="tiny.v1", actor="ann", origin="cli", idempotency_key="ask-1"
    )
    subscribe(project, "tiny.v1")
    assert tick(instance, project) == "checked 1 subscribed lines: 0 submitted"


def test_the_daily_budget_holds_over_all_lines(project: Project, instance) -> None:
    for number in range(1, 4):
        register_recipe(project.store, project.recipe(f"tiny.v{number}", steps=number), actor="ann")
    subscribe(project, "tiny.v1", "tiny.v2", "tiny.v3", per_day=2)
    add_version(project)
    assert tick(instance, project).endswith("2 submitted; 1 wait for tomorrow's budget of 2")
    assert tick(instance, project).endswith("0 submitted; 1 wait for tomorrow's budget of 2")
    assert len(wanted(project)) == 2


def test_a_subscription_that_cannot_be_submitted_is_named_and_takes_no_budget(project: Project, instance) -> None:
    """A recipe that was never registered ended the tick, and took a slot of the day's budget with each one."""
    register_recipe(project.store, project.recipe(), actor="ann")
    subscribe(project, "missing.v1", "other.tiny.v1", "tiny.v1", per_day=1)
    add_version(project)
    said = tick(instance, project)
    assert "1 submitted" in said
    assert "there is no recipe 'missing.v1'" in said
    assert "belongs to tenant 'other'" in said
    assert wanted(project) == {("acme.things.v1", "tiny.v1", "sensor")}


def test_a_tenants_file_that_means_nothing_stops_nothing_and_is_named(project: Project, instance) -> None:
    (project.folder / "tenants.yaml").write_text("tenants:\n  acme:\n    subscription: []\n")
    assert "did you mean 'subscriptions'?" in tick(instance, project)


@pytest.fixture
def hub(project: Project, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    hub = FakeHub()
    hub.commit("org/tiny", project.folder / "base")
    monkeypatch.setattr("ft_resources.dagster_resources.HuggingFaceHub", lambda endpoint: hub)
    return hub


def tick_bases(instance: dg.DagsterInstance, project: Project) -> str:
    context = dg.build_sensor_context(instance=instance)
    store = StoreResource(url=project.store_url)
    reason = base_revision_sensor(context, store=store, hub=HubResource())
    return sentence(reason)


def test_a_moved_base_registers_a_successor_and_its_lines_are_submitted(
    project: Project, instance, hub: FakeHub
) -> None:
    recipe = project.recipe(base="hub:org/tiny@main")
    register_recipe(project.store, recipe, actor="ann", hub=hub)
    subscribe(project, "tiny.v1")
    add_version(project)
    tick(instance, project)
    assert tick_bases(instance, project) == "checked 1 recipes in use: 0 bases moved"
    locked = get_recipe(project.store, "tiny.v1").lock

    commit = hub.commit("org/tiny", make_fake_base(project.folder / "patched", seed=7))
    assert tick_bases(instance, project) == "checked 1 recipes in use: 1 bases moved (tiny.v2)"
    assert tick_bases(instance, project) == "checked 1 recipes in use: 0 bases moved"

    # The old recipe means what it meant; the new one is locked to the new commit.
    assert get_recipe(project.store, "tiny.v1").lock == locked
    assert get_recipe(project.store, "tiny.v2").lock.revision == commit
    tick(instance, project)
    assert wanted(project) == {("acme.things.v1", "tiny.v1", "sensor"), ("acme.things.v1", "tiny.v2", "sensor")}


def test_lines_of_a_successor_wait_until_it_is_known_who_depends_on_the_old_base(
    project: Project, instance, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sensor process that dies between registering and recording is made good by its next tick."""
    register_recipe(project.store, project.recipe(base="hub:org/tiny@main"), actor="ann", hub=hub)
    subscribe(project, "tiny.v1")
    add_version(project)
    hub.commit("org/tiny", make_fake_base(project.folder / "patched", seed=7))
    with monkeypatch.context() as dying:
        dying.setattr("ft_assets.api.base_bumps.record_bump", lambda *_, **__: None)
        tick_bases(instance, project)
    assert tick(instance, project) == "checked 1 subscribed lines: 0 submitted"
    tick_bases(instance, project)
    assert tick(instance, project) == "checked 1 subscribed lines: 1 submitted"
    assert wanted(project) == {("acme.things.v1", "tiny.v2", "sensor")}


def test_a_base_that_moved_without_a_change_that_counts_has_no_successor(
    project: Project, instance, hub: FakeHub
) -> None:
    register_recipe(project.store, project.recipe(base="hub:org/tiny@main"), actor="ann", hub=hub)
    subscribe(project, "tiny.v1")
    (project.folder / "base" / "README.md").write_text("a typo less")
    hub.commit("org/tiny", project.folder / "base")
    assert tick_bases(instance, project) == "checked 1 recipes in use: 0 bases moved"
    # A commit that was looked at is not fetched again with every tick.
    downloads = len(hub.downloads)
    assert tick_bases(instance, project) == "checked 1 recipes in use: 0 bases moved"
    assert len(hub.downloads) == downloads


def test_a_base_that_is_gone_does_not_hide_the_others(project: Project, instance, hub: FakeHub) -> None:
    hub.commit("org/other", project.folder / "base")
    register_recipe(project.store, project.recipe("tiny.v1", base="hub:org/tiny@main"), actor="ann", hub=hub)
    register_recipe(project.store, project.recipe("other.v1", base="hub:org/other@main"), actor="ann", hub=hub)
    subscribe(project, "other.v1", "tiny.v1")
    del hub.branches["org/other", "main"]
    hub.commit("org/tiny", make_fake_base(project.folder / "patched", seed=7))
    message = tick_bases(instance, project)
    assert "1 bases moved (tiny.v2)" in message
    assert "other.v1: the hub has no such model" in message


def test_a_line_that_its_tenant_may_not_train_is_named_and_takes_nothing_of_the_budget(
    project: Project, instance
) -> None:
    register_recipe(project.store, project.recipe(), actor="ann")
    subscribe(project, "tiny.v1")
    add_version(project)
    file = project.folder / "tenants.yaml"
    allowed = file.read_text()
    file.write_text(f"{allowed}deprecated_methods: [lora]\n")
    for _ in range(3):
        assert "0 submitted; acme.things.v1 with tiny.v1: sft/lora is deprecated" in tick(instance, project)
    assert list(project.store.entries("retrainings")) == []
    file.write_text(allowed)
    assert "1 submitted" in tick(instance, project)


def test_a_recipe_whose_adapter_is_served_is_looked_at_though_nobody_subscribes_to_it(
    project: Project, instance, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ft_assets.control.lines.lines import fold
    from tests.control.lines.promotable import made_record

    register_recipe(project.store, project.recipe(base="hub:org/tiny@main"), actor="ann", hub=hub)
    (project.folder / "tenants.yaml").write_text("{}")
    assert tick_bases(instance, project) == "checked 0 recipes in use: 0 bases moved"
    served = fold("acme.things.tiny", [made_record(stage="staging", recipe="tiny.v1")])
    monkeypatch.setattr("ft_assets.api.base_bumps.list_lines", lambda store: [served.line])
    monkeypatch.setattr("ft_assets.api.base_bumps.read_line", lambda store, line: served)
    hub.commit("org/tiny", make_fake_base(project.folder / "patched", seed=7))
    assert tick_bases(instance, project) == "checked 1 recipes in use: 1 bases moved (tiny.v2)"
