"""The queue's sensor on a real project."""

import dagster as dg

from ft_assets.notices.due import markers
from ft_assets.recipes.register import register_recipe
from ft_assets.submissions.record import SubmissionStatus, finish, submit
from ft_resources.dagster_resources import StoreResource
from ft_sensors.queue import queue_sensor
from tests.e2e.project import Project
from tests.sensors.conftest import add_version


def tick(project: Project, instance: dg.DagsterInstance) -> str:
    context = dg.build_sensor_context(instance=instance)
    reason = queue_sensor(context, store=StoreResource(url=project.store_url))
    assert isinstance(reason, dg.SkipReason)
    return str(reason.skip_message)


def limit(project: Project, minutes: float) -> None:
    (project.folder / "tenants.yaml").write_text(
        f"tiers: {{premium: {{max_wait_minutes: {minutes}}}}}\ntenants: {{acme: {{tier: premium}}}}\n"
    )


def test_a_wait_beyond_the_tiers_limit_is_a_breach_until_it_ends(
    project: Project, instance: dg.DagsterInstance
) -> None:
    assert tick(project, instance) == "no tier has max_wait_minutes"
    recipe = str(register_recipe(project.store, project.recipe(), actor="ann").key)
    limit(project, 60.0)
    submission, _ = submit(
        project.store,
        dataset=add_version(project),
        recipe=recipe,
        actor="ann",
        origin="cli",
        idempotency_key="1",
    )
    assert tick(project, instance) == "premium: 1 wait"
    limit(project, 0.000001)
    assert tick(project, instance) == "premium: 1 wait, breach"
    assert tick(project, instance) == "premium: 1 wait"
    told = len(markers(project.store))
    finish(project.store, submission, SubmissionStatus.CANCELLED, reason="no more")
    assert tick(project, instance) == "premium: 0 wait, recovered"
    assert tick(project, instance) == "premium: 0 wait"
    assert told == 1
