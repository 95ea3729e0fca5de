"""The jobs: one per partition set, and ``fine_tune``, which records what is wanted.

They use the in-process executor: a pair of no-op steps takes seconds that way, and most of a minute with a process
per step. The heavy work is in workers anyhow.
"""

import getpass

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from pydantic import Field

from ft_assets import tags
from ft_assets.submissions.estimate import estimate_training
from ft_assets.submissions.estimate_metadata import estimate_metadata
from ft_assets.submissions.own_keys import check_own_key
from ft_assets.submissions.plan import Stage
from ft_assets.submissions.record import check_wish, resubmit_key, submit
from ft_resources.artifacts import Artifacts
from ft_resources.dagster_resources import StoreResource

prepare_dataset = dg.define_asset_job(
    Stage.PREPARE_DATASET.value,
    selection=["raw_dataset", "dataset"],
    executor_def=dg.in_process_executor,
    description="Curate one dataset version.",
)
prepare_recipe = dg.define_asset_job(
    Stage.PREPARE_RECIPE.value,
    selection=["base_model", "baseline_report"],
    executor_def=dg.in_process_executor,
    description="Mirror a recipe's base model and score it once.",
)
train_trial = dg.define_asset_job(
    Stage.TRAIN_TRIAL.value,
    selection=["token_pack", "checkpoint"],
    executor_def=dg.in_process_executor,
    tags={tags.TRAINS: "true"},
    description="Pack and train one trial of a sweep; only the sweep's winner is evaluated.",
)
train_pair = dg.define_asset_job(
    Stage.TRAIN_PAIR.value,
    selection=["token_pack", "checkpoint", "eval_report", "adapter"],
    executor_def=dg.in_process_executor,
    tags={tags.TRAINS: "true"},
    description="Pack, train, evaluate and gate one pair.",
)


class FineTuneConfig(dg.Config):
    """What to fine-tune, with what."""

    dataset: str = Field(description="Dataset key, such as acme.support.v1.")
    recipe: str = Field(description="Recipe key, such as docs-qa.v1.")
    idempotency_key: str = Field(
        default="", description="Asking again with the same key changes nothing; for something else it is an error."
    )
    max_gpu_hours: float | None = Field(
        default=None, description="Refuse the training where it is expected to take more GPU-hours; null for no limit."
    )

    gates: list[str] = Field(
        default=[], description="What to ask for beyond the recipe's gates, such as `exact_match > 0.6`; only stricter."
    )


@dg.op
def record_submission(context: dg.OpExecutionContext, config: FineTuneConfig, store: StoreResource) -> dg.Output[str]:
    """Write the submission; the submissions sensor launches what it needs, as its inputs become ready."""
    check_own_key(config.idempotency_key)
    check_wish(store.store, config.dataset, config.recipe)
    found = estimate_training(Artifacts(store.store), config.dataset, config.recipe)
    key = config.idempotency_key or resubmit_key(store.store, config.dataset, config.recipe, config.gates)
    submission, created = submit(
        store.store,
        dataset=config.dataset,
        recipe=config.recipe,
        actor=context.run.tags.get("user", getpass.getuser()),
        origin="ui",
        idempotency_key=key,
        max_gpu_hours=config.max_gpu_hours,
        gates=config.gates,
    )
    context.log.info(f"submission {submission.id} {'recorded' if created else 'was there already'}")
    return dg.Output(
        submission.id, metadata={"submission": submission.id, "created": created, **estimate_metadata(found)}
    )


@dg.job(
    executor_def=dg.in_process_executor,
    description="Ask for an adapter: one action, the whole chain. Always a training: it ends the carry of a pair.",
)
def fine_tune() -> None:
    record_submission()


all_jobs: list[dg.JobDefinition | UnresolvedAssetJobDefinition] = [
    prepare_dataset,
    prepare_recipe,
    train_trial,
    train_pair,
    fine_tune,
]
