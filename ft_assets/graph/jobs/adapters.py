"""The jobs that decide about a line: ``promote`` and ``rollback``; and ``collect_deleted``, which erases."""

import getpass
from typing import cast

import dagster as dg
from pydantic import Field

from ft_assets.adapters.lines import POINTERS, STAGES, Pointer, PromotionRecord, Stage
from ft_assets.adapters.promotion import Decision, promote, rollback
from ft_assets.erasure.collect import collect
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import UserError


class PromoteConfig(dg.Config):
    """Which adapter goes where."""

    target: str = Field(description="A line (tenant.dataset.recipe), a pair DATASET|RECIPE, or an adapter's address.")
    stage: str = Field(description="dev, staging, production, deprecated or archived.")
    reason: str = Field(description="Why; it is recorded.")
    waive_incumbent: bool = Field(
        default=False, description="Answer for a comparison with the incumbent that is inconclusive."
    )


class RollbackConfig(dg.Config):
    """Which line goes back."""

    line: str = Field(description="tenant.dataset.recipe.")
    reason: str = Field(description="Why; it is recorded.")
    stage: str = Field(default="production", description="dev, staging or production.")
    to: str = Field(default="", description="Address of an adapter that stood there before; empty: the last one.")


@dg.op
def record_promotion(
    context: dg.OpExecutionContext, config: PromoteConfig, store: StoreResource
) -> dg.Output[dict[str, str]]:
    """Check the adapter and append the promotion to its line's log."""
    if config.stage not in STAGES:
        raise _unknown(config.stage, STAGES)
    decision = _decision(context, config.reason, waive_incumbent=config.waive_incumbent)
    record, created = promote(store.artifacts, config.target, cast(Stage, config.stage), decision)
    if not created:
        context.log.info(f"it stood there already, by {record.path}")
    return _output(record)


@dg.op
def record_rollback(
    context: dg.OpExecutionContext, config: RollbackConfig, store: StoreResource
) -> dg.Output[dict[str, str]]:
    """Point a line's stage to an adapter that stood there before."""
    if config.stage not in POINTERS:
        raise _unknown(config.stage, POINTERS)
    decision = _decision(context, config.reason)
    return _output(rollback(store.artifacts, config.line, decision, stage=cast(Pointer, config.stage), to=config.to))


@dg.op
def erase_deleted(context: dg.OpExecutionContext, store: StoreResource) -> dg.Output[int]:
    """Erase what has a tombstone whose grace is over, and nothing needs."""
    done = collect(store.artifacts)
    for address, reason in done.plan.kept.items():
        context.log.info(f"kept {address}: {reason}")
    for address in done.addresses:
        context.log.info(f"erased {address}, {done.plan.remove[address].sentence()}")
    metadata = {"erased": len(done.addresses), "kept": len(done.plan.kept), "in grace": len(done.plan.waiting)}
    return dg.Output(len(done.addresses), metadata=metadata)


@dg.job(name="promote", executor_def=dg.in_process_executor, description="Move an adapter of a line to a stage.")
def promote_job() -> None:
    record_promotion()


@dg.job(name="rollback", executor_def=dg.in_process_executor, description="Point a line back to an earlier adapter.")
def rollback_job() -> None:
    record_rollback()


@dg.job(executor_def=dg.in_process_executor, description="Erase what was deleted and whose grace is over.")
def collect_deleted() -> None:
    erase_deleted()


line_jobs: list[dg.JobDefinition] = [promote_job, rollback_job, collect_deleted]


def _decision(context: dg.OpExecutionContext, reason: str, *, waive_incumbent: bool = False) -> Decision:
    actor = context.run.tags.get("user", getpass.getuser())
    return Decision(actor=actor, reason=reason, waive_incumbent=waive_incumbent, log=context.log)


def _unknown(stage: str, known: tuple[str, ...]) -> UserError:
    return UserError(f"there is no stage {stage!r} to go to", where="stage", remedy=f"Use {', '.join(known)}.")


def _output(record: PromotionRecord) -> dg.Output[dict[str, str]]:
    shown = {
        "line": record.line,
        "stage": record.stage,
        "adapter": record.adapter.address,
        "record": record.path,
        "actor": record.actor,
        "replaces": record.replaces or "nothing",
    }
    return dg.Output(shown, metadata={**shown, "findings": dg.MetadataValue.md("\n".join(record.findings))})
