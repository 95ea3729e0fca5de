"""The jobs that decide about a line: ``promote`` and ``rollback``; and ``collect_deleted``, which erases."""

import dagster as dg
from pydantic import Field

from ft_assets import api
from ft_assets.graph.actors import launching
from ft_assets.graph.told import told
from ft_resources.dagster_resources import StoreResource


class PromoteConfig(dg.Config):
    """Which adapter goes where."""

    target: str = Field(description="Line (tenant.dataset.recipe), pair DATASET|RECIPE, or address of an adapter.")
    stage: str = Field(description="Target stage: dev, staging, production, deprecated or archived.")
    reason: str = Field(description="Reason (recorded).")
    waive_incumbent: bool = Field(default=False, description="Waive an inconclusive comparison with the incumbent.")


class RollbackConfig(dg.Config):
    """Which line goes back."""

    line: str = Field(description="tenant.dataset.recipe.")
    reason: str = Field(description="Reason (recorded).")
    stage: str = Field(default="production", description="Stage: dev, staging or production.")
    to: str = Field(
        default="", description="Address of an adapter that was in the stage before; empty: the previous one."
    )


@dg.op
@told
def record_promotion(
    context: dg.OpExecutionContext, config: PromoteConfig, store: StoreResource
) -> dg.Output[dict[str, str]]:
    """Check the adapter and append the promotion to its line's log."""
    record, created = api.promote(
        config.target,
        config.stage,
        reason=config.reason,
        waive_incumbent=config.waive_incumbent,
        store=store.store,
        actor=launching(),
        log=context.log,
    )
    if not created:
        context.log.info(f"already in this stage, by {record.path}")
    return _output(record)


@dg.op
@told
def record_rollback(
    context: dg.OpExecutionContext, config: RollbackConfig, store: StoreResource
) -> dg.Output[dict[str, str]]:
    """Point a line's stage back to an adapter that was there before."""
    record = api.roll_back(
        config.line,
        reason=config.reason,
        stage=config.stage,
        to=config.to,
        store=store.store,
        actor=launching(),
        log=context.log,
    )
    return _output(record)


@dg.op
@told
def erase_deleted(context: dg.OpExecutionContext, store: StoreResource) -> dg.Output[int]:
    """Erase data whose tombstone's grace period is over and that nothing needs."""
    done = api.collect_deleted(store=store.store)
    for address, reason in done.plan.kept.items():
        context.log.info(f"kept {address}: {reason}")
    for address in done.addresses:
        context.log.info(f"erased {address}, {done.plan.remove[address].sentence()}")
    metadata = {"erased": len(done.addresses), "kept": len(done.plan.kept), "in grace": len(done.plan.waiting)}
    return dg.Output(len(done.addresses), metadata=metadata)


@dg.job(name="promote", executor_def=dg.in_process_executor, description="Promote an adapter of a line to a stage.")
def promote_job() -> None:
    record_promotion()


@dg.job(name="rollback", executor_def=dg.in_process_executor, description="Roll a line back to an earlier adapter.")
def rollback_job() -> None:
    record_rollback()


@dg.job(executor_def=dg.in_process_executor, description="Erase deleted data whose grace period is over.")
def collect_deleted() -> None:
    erase_deleted()


line_jobs: list[dg.JobDefinition] = [promote_job, rollback_job, collect_deleted]


def _output(record: api.PromotionRecord) -> dg.Output[dict[str, str]]:
    shown = {
        "line": record.line,
        "stage": record.stage,
        "adapter": record.adapter.address,
        "record": record.path,
        "actor": record.actor,
        "replaces": record.replaces or "nothing",
    }
    return dg.Output(shown, metadata={**shown, "findings": dg.MetadataValue.md("\n".join(record.findings))})
