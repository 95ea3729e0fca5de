"""The jobs: one per partition set, and ``fine_tune``, which records what is wanted.

They use the in-process executor: a pair of no-op steps takes seconds that way, and most of a minute with a process
per step. The heavy work is in workers anyhow.
"""

import dagster as dg
from pydantic import Field

from ft_assets import api
from ft_assets.api import Stage
from ft_assets.graph.actors import launching
from ft_assets.graph.estimate_metadata import estimate_metadata
from ft_assets.graph.told import told
from ft_assets.settings import tags
from ft_assets.settings.catalogue.exports import EXPORTS
from ft_assets.settings.keys import DatasetKey, RecipeKey
from ft_resources.dagster_resources import StoreResource

prepare_dataset = dg.define_asset_job(
    Stage.PREPARE_DATASET.value,
    selection=dg.AssetSelection.assets("raw_dataset", "dataset"),
    executor_def=dg.in_process_executor,
    description="Curate one dataset version.",
)
prepare_recipe = dg.define_asset_job(
    Stage.PREPARE_RECIPE.value,
    selection=dg.AssetSelection.assets("base_model", "baseline_report"),
    executor_def=dg.in_process_executor,
    description="Mirror a recipe's base model and score it once.",
)
train_trial = dg.define_asset_job(
    Stage.TRAIN_TRIAL.value,
    selection=dg.AssetSelection.assets("token_pack", "checkpoint"),
    executor_def=dg.in_process_executor,
    tags={tags.TRAINS: "true"},
    description="Pack and train one trial of a sweep; only the sweep's winner is evaluated.",
)
train_pair = dg.define_asset_job(
    Stage.TRAIN_PAIR.value,
    selection=dg.AssetSelection.assets("token_pack", "checkpoint", "eval_report", "adapter"),
    executor_def=dg.in_process_executor,
    tags={tags.TRAINS: "true"},
    description="Pack, train, evaluate and gate one pair.",
)


export_pair = dg.define_asset_job(
    Stage.EXPORT_PAIR.value,
    selection=dg.AssetSelection.assets(*{each.asset for each in EXPORTS.values()}),
    executor_def=dg.in_process_executor,
    description="Merge an accepted adapter and its base into one model for other engines, and gate it again.",
)


class FineTuneConfig(dg.Config):
    """What to fine-tune, with what."""

    dataset: str = Field(description="Dataset key, such as acme.support.v1.")
    recipe: str = Field(description="Recipe key, such as docs-qa.v1.")
    idempotency_key: str = Field(
        default="",
        description="Idempotency key: a second request with the same key changes nothing; it is an error with other "
        "arguments.",
    )
    max_gpu_hours: float | None = Field(default=None, description="Maximum estimated GPU-hours; null: no limit.")

    gates: list[str] = Field(
        default=[],
        description="Gates in addition to the recipe's, such as `exact_match > 0.6`; they can only be stricter.",
    )


@dg.op
@told
def record_submission(context: dg.OpExecutionContext, config: FineTuneConfig, store: StoreResource) -> dg.Output[str]:
    """Write the submission; the submissions sensor launches its work as inputs become ready."""
    asked = api.submit(
        str(DatasetKey.parse(config.dataset)),
        # A key only: what runs here reads no file that somebody far away names.
        str(RecipeKey.parse(config.recipe)),
        max_gpu_hours=config.max_gpu_hours,
        gates=config.gates,
        key=config.idempotency_key,
        origin="ui",
        store=store.store,
        actor=launching(),
    )
    submission = asked.submission
    context.log.info(f"submission {submission.id} {'recorded' if asked.created else 'already existed'}")
    shown = {"submission": submission.id, "created": asked.created, **estimate_metadata(asked.estimate)}
    return dg.Output(submission.id, metadata=shown)


@dg.job(
    executor_def=dg.in_process_executor,
    description="Submit a pair, from dataset to adapter in one action. This is always a training and ends the carry "
    "of a pair.",
)
def fine_tune() -> None:
    record_submission()


asset_jobs = [prepare_dataset, prepare_recipe, train_trial, train_pair, export_pair]
