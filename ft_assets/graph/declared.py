"""Assets, checks and jobs with the resources that they use, as one ``dg.Definitions``."""

from collections.abc import Sequence

import dagster as dg

from ft_assets.graph.assets.adapters import adapter
from ft_assets.graph.assets.base_models import base_model, baseline_report
from ft_assets.graph.assets.checkpoints import checkpoint
from ft_assets.graph.assets.datasets import dataset, raw_dataset
from ft_assets.graph.assets.evals import eval_report
from ft_assets.graph.assets.exports import export_assets
from ft_assets.graph.assets.packs import token_pack
from ft_assets.graph.checks.datasets import dataset_review
from ft_assets.graph.checks.evals import eval_gates
from ft_assets.graph.checks.packs import pack_doctor
from ft_assets.graph.jobs.adapters import line_jobs
from ft_assets.graph.jobs.pauses import pause_jobs
from ft_assets.graph.jobs.retention import collect_unreferenced_job
from ft_assets.graph.jobs.sources import pull_dataset_job
from ft_assets.graph.jobs.submissions import asset_jobs, fine_tune
from ft_assets.graph.upstream_assets import below_upstream
from ft_resources.dagster_resources import HubResource, LauncherResource, StoreResource, settled


def declared(store_url: str, *, sensors: Sequence[dg.SensorDefinition] = ()) -> dg.Definitions:
    """All definitions of the graph over the store at ``store_url``. ``sensors`` are for a code location; jobs run in
    this process need none.
    """
    return dg.Definitions(
        assets=[
            *below_upstream(raw_dataset),
            dataset,
            base_model,
            baseline_report,
            token_pack,
            checkpoint,
            eval_report,
            adapter,
            *export_assets,
        ],
        asset_checks=[dataset_review, pack_doctor, eval_gates],
        jobs=[*asset_jobs, fine_tune, *pause_jobs, *line_jobs, collect_unreferenced_job, pull_dataset_job],
        sensors=sensors,
        # Also of what the UI launches without a job, such as a backfill: a process for each step would load all anew.
        executor=dg.in_process_executor,
        resources={
            "store": settled(StoreResource(url=store_url)),
            "launcher": settled(LauncherResource()),
            "hub": settled(HubResource()),
        },
    )
