"""The job that pulls a watched source; ``sources_sensor`` asks for it when the source has other rows."""

import dagster as dg
from pydantic import Field

from ft_assets import api
from ft_assets.graph.actors import launching
from ft_assets.graph.told import told
from ft_resources.dagster_resources import StoreResource

ACTOR = "sources_sensor"


class PullConfig(dg.Config):
    """Whose source is read."""

    dataset: str = Field(description="Name of the dataset, as tenant.name.")
    seen: str = Field(default="", description="Change that triggered the run; empty if launched by a person.")


@dg.op
@told
def pull_rows(context: dg.OpExecutionContext, config: PullConfig, store: StoreResource) -> dg.Output[str]:
    """Read the source, and add its rows as the dataset's next version."""
    pulled, added = api.pull_dataset(
        config.dataset,
        seen=config.seen,
        store=store.store,
        actor=ACTOR if config.seen else launching(),
    )
    for warning in added.warnings:
        context.log.warning(warning)
    context.log.info(f"{added.key}: {'added' if added.created else 'already has these rows'}; {pulled.seen}")
    return dg.Output(str(added.key), metadata={"version": str(added.key), "new": added.created, "seen": pulled.seen})


@dg.job(
    name="pull_dataset",
    executor_def=dg.in_process_executor,
    description="Read a watched source, and add its rows as the next version of its dataset.",
)
def pull_dataset_job() -> None:
    pull_rows()
