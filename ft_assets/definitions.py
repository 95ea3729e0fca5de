"""The one ``dg.Definitions``: assets, checks, jobs, sensors and the resources they use."""

import dagster as dg

from ft_assets.adapters.assets import adapter
from ft_assets.adapters.jobs import line_jobs
from ft_assets.base_models.assets import base_model, baseline_report
from ft_assets.checkpoints.assets import checkpoint
from ft_assets.datasets.assets import dataset, raw_dataset
from ft_assets.datasets.checks import dataset_review
from ft_assets.evals.assets import eval_report
from ft_assets.evals.checks import eval_gates
from ft_assets.packs.assets import token_pack
from ft_assets.packs.checks import pack_doctor
from ft_assets.retention.jobs import collect_unreferenced_job
from ft_assets.submissions.jobs import all_jobs
from ft_resources.dagster_resources import HubResource, LauncherResource, StoreResource, default_store_url
from ft_resources.launchers.choice import launcher_kind
from ft_sensors.ageing import ageing_sensor
from ft_sensors.base_bumps import base_bump_sensor
from ft_sensors.base_revisions import base_revision_sensor
from ft_sensors.leftovers import leftovers_sensor
from ft_sensors.metering import metering_sensor
from ft_sensors.notices import notices_sensor
from ft_sensors.orphans import orphans_sensor
from ft_sensors.queue import queue_sensor
from ft_sensors.retention import retention_sensor
from ft_sensors.retraining import retraining_sensor
from ft_sensors.run_failures import run_failures_sensor
from ft_sensors.submissions import submissions_sensor


def build_definitions(store_url: str) -> dg.Definitions:
    """The whole project over the store at ``store_url``."""
    return dg.Definitions(
        assets=[
            raw_dataset,
            dataset,
            base_model,
            baseline_report,
            token_pack,
            checkpoint,
            eval_report,
            adapter,
        ],
        asset_checks=[dataset_review, pack_doctor, eval_gates],
        jobs=[*all_jobs, *line_jobs, collect_unreferenced_job],
        sensors=[
            submissions_sensor,
            retraining_sensor,
            base_revision_sensor,
            base_bump_sensor,
            run_failures_sensor,
            notices_sensor,
            queue_sensor,
            metering_sensor,
            retention_sensor,
            leftovers_sensor,
            orphans_sensor,
            ageing_sensor,
        ],
        resources={
            "store": StoreResource(url=store_url),
            "launcher": LauncherResource(kind=launcher_kind()),
            "hub": HubResource(),
        },
    )


defs = build_definitions(default_store_url())
