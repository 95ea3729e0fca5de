"""The asset ``checkpoint``: one training run for each pair of dataset version and recipe."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from ft_assets.control import identity
from ft_assets.control.auto.configure import Configuration
from ft_assets.control.auto.resolve import training_settings
from ft_assets.control.identity.doctor import refuse_read_holdout, refuse_sick_pack
from ft_assets.control.submissions.admission import require_affordable
from ft_assets.control.sweeps.mlflow_comparison import tell_mlflow
from ft_assets.control.sweeps.trial_states import decide
from ft_assets.graph.actors import acting
from ft_assets.graph.glue import common_metadata, pair_of, run_work
from ft_assets.graph.partitions import GROUP, of_recipe, pair_partitions
from ft_assets.graph.runs import submission_of
from ft_assets.graph.told import told
from ft_assets.graph.trial_table import trial_table
from ft_assets.records.carries import find_carry
from ft_assets.settings import tags
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_assets.settings.recipe.shown import configuration_hash, made_for, settings_table, shown_settings
from ft_assets.settings.tenants import load_tenants
from ft_assets.workers.adapters.carried_checkpoint import SOURCE, make_carried
from ft_assets.workers.training.earlier import CONTINUED_FROM
from ft_assets.workers.training.early_stopping import STOPPED_EARLY
from ft_assets.workers.training.telemetry.alerts import Alert
from ft_assets.workers.training.telemetry.report import LOSS, THROUGHPUT
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.attempts import Attempt, attempts_at
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.errors import UserError
from ft_resources.first_step import waits_of
from ft_resources.tracking import default_uri

# A smaller share of the rows moves no loss that anybody would wonder about.
_FEW = 0.02


@dg.asset(
    partitions_def=pair_partitions,
    deps=["token_pack", of_recipe("base_model")],
    group_name=GROUP,
    kinds={"pytorch"},
    owners=["team:ml-platform"],
    code_version=CODE_VERSIONS["checkpoint"],
    tags={tags.WORKER: "gpu"},
)
@told
def checkpoint(
    context: dg.AssetExecutionContext, store: StoreResource, launcher: LauncherResource
) -> dg.MaterializeResult:
    """The training run: final weights, step metrics, the data ledger and the recipe as resolved."""
    pair = pair_of(context.partition_key)
    submission = submission_of(context.run.tags, store.store)
    carries = submission is not None and submission.mode == "carry"
    if carries or find_carry(store.store, *pair) is not None:
        return _carried(context, store, pair)
    sweep = decide(store.artifacts, *pair)
    refuse_sick_pack(store.artifacts, *pair)
    refuse_read_holdout(store.artifacts, *pair)
    limit = submission.max_gpu_hours if submission else None
    for warning in require_affordable(store.artifacts, load_tenants(), *pair, limit):
        context.log.warning(warning)
    if identity.compares(store.artifacts, pair[1]):
        run_work(context, store, launcher, identity.reference_logps_request(store.artifacts, *pair))
    request = identity.checkpoint_request(store.artifacts, *pair)
    artifact = run_work(context, store, launcher, request)
    told = _configuration(artifact, identity.pair_configuration(store.artifacts, *pair), context.partition_key)
    if sweep:
        told |= {"trials": trial_table(sweep), "winner": dg.MetadataValue.text(sweep.winning.key)}
        tell_mlflow(default_uri(), context.log, sweep)
    return dg.MaterializeResult(
        data_version=dg.DataVersion(artifact.digest),
        metadata={
            **_metadata(artifact, only_trained(_curation(store.artifacts, pair[0]))),
            **told,
            **_start(attempts_at(store.store, artifact.address)),
            **common_metadata(artifact),
        },
    )


def _start(attempts: Sequence[Attempt]) -> dict[str, dg.MetadataValue]:
    """What the first step of the last attempt waited for; a training from before it was recorded says nothing."""
    stages = waits_of(attempts[-1]) if attempts else ()
    if not stages:
        return {}
    rows = [f"| {each.name} | {each.seconds:.1f} |" for each in stages]
    return {
        "first_step_after_s": dg.MetadataValue.float(sum(each.seconds for each in stages)),
        "first_step_waited_for": dg.MetadataValue.md("\n".join(["| stage | seconds |", "|---|---|", *rows])),
    }


def _carried(context: dg.AssetExecutionContext, store: StoreResource, pair: tuple[str, str]) -> dg.MaterializeResult:
    """The pair's weights from the previous base; a run in mode ``carry`` never trains."""
    if problem := identity.carry_problem(store.artifacts, *pair):
        raise UserError(
            f"it cannot be carried to its new base: {problem}",
            where=context.partition_key,
            remedy="Submit the pair for training: ft submit DATASET RECIPE",
        )
    request = identity.checkpoint_request(store.artifacts, *pair)
    if request.params != {"mode": "carry"}:
        raise UserError("a training was requested in the meantime", where=context.partition_key, remedy="Wait for it.")
    artifact = make_carried(store.artifacts, request, actor=acting(context, store.store))
    return dg.MaterializeResult(
        data_version=dg.DataVersion(artifact.digest),
        metadata={SOURCE: dg.MetadataValue.text(artifact.facts[SOURCE]), **common_metadata(artifact)},
    )


def _curation(artifacts: Artifacts, dataset_key: str) -> dict[str, Any]:
    """The curation report of a dataset version."""
    return identity.dataset(artifacts, dataset_key).read_json("report/report.json")


def only_trained(report: Mapping[str, Any]) -> str:
    """Why training and validation loss are not comparable: what is trained on and never validated on. Empty if they
    are.

    Args:
        report: of curation. Mixed-in rows are always training rows; of the uploaded ones the kinds count.
    """
    train, validation = (report["splits"][split] for split in ("train", "validation"))
    kinds = {kind: rows for kind, rows in train["kinds"].items() if kind not in validation["kinds"]}
    only = {each["dataset"]: each["rows"] for each in report["mixed"]} or kinds
    if not validation["rows"] or sum(only.values()) < _FEW * train["rows"]:
        return ""
    return (
        f"{sum(only.values()):,} of {train['rows']:,} training rows are of a kind that validation does not have "
        f"({', '.join(sorted(only))}). Training and validation loss are therefore not comparable: follow each over the "
        "steps."
    )


def _metadata(artifact: Artifact, note: str = "") -> dict[str, dg.MetadataValue]:
    """Numbers and plots of a finished training run; ``note`` says how to read its losses."""
    facts = artifact.facts
    resumed = ", ".join(f"after step {save['step']} of attempt {save['attempt']}" for save in facts["resumed"])
    validated = facts["validation_loss"]
    metadata: dict[str, dg.MetadataValue] = {
        "loss_curve": _picture(artifact, LOSS, "training and validation loss", note),
        **({"validation_loss": dg.MetadataValue.float(validated[-1][1])} if validated else {}),
        # Over the last ten steps; one step's is in the curve.
        "mean_train_loss": dg.MetadataValue.float(facts["train_loss"]),
        **({"losses_not_comparable": dg.MetadataValue.text(note)} if note else {}),
        **_documents(facts.get("isolation", {})),
        "steps": dg.MetadataValue.int(facts["steps"]),
        **({STOPPED_EARLY: dg.MetadataValue.int(facts[STOPPED_EARLY])} if STOPPED_EARLY in facts else {}),
        "tokens": dg.MetadataValue.int(facts["tokens"]),
        "tokens_per_s": dg.MetadataValue.float(facts["tokens_per_s"]),
        "seconds": dg.MetadataValue.float(facts["seconds"]),
        **({CONTINUED_FROM: dg.MetadataValue.text(facts[CONTINUED_FROM])} if CONTINUED_FROM in facts else {}),
        "resumed": dg.MetadataValue.text(resumed or "no interruption"),
    }
    return metadata | _telemetry(artifact)


def _documents(isolation: Mapping[str, Any]) -> dict[str, dg.MetadataValue]:
    """How documents ran; a training from before there was a choice says nothing of it."""
    if "mode" not in isolation:
        return {}
    padding = f"; {100 * isolation['padding']:.1f} % padding" if isolation["mode"] == "apart" else ""
    return {"documents": dg.MetadataValue.text(f"{isolation['mode']}: {isolation['why']}{padding}")}


def _telemetry(artifact: Artifact) -> dict[str, dg.MetadataValue]:
    """Throughput and alerts. Trainings from before these were measured show less."""
    facts = artifact.facts
    metadata: dict[str, dg.MetadataValue] = {}
    if f"report/{THROUGHPUT}" in artifact.manifest.files:
        metadata["throughput"] = _picture(artifact, THROUGHPUT, "tokens per second, and waiting for data")
    if facts.get("validation_perplexity"):
        metadata["validation_perplexity"] = dg.MetadataValue.float(facts["validation_perplexity"][-1][1])
    if facts.get("kept"):
        steps = ", ".join(str(step) for step, _ in sorted(facts["kept"]))
        metadata["kept"] = dg.MetadataValue.text(f"the weights after step {steps} too; evaluation.candidate names one")
    if facts.get("mfu") is not None:
        metadata["mfu"] = dg.MetadataValue.float(facts["mfu"])
    if facts.get("alerts"):
        metadata["alerts"] = dg.MetadataValue.md("\n".join(f"- {Alert(**alert)}" for alert in facts["alerts"]))
    return metadata


def _picture(artifact: Artifact, name: str, words: str, caption: str = "") -> dg.MetadataValue:
    data = base64.b64encode(artifact.read(f"report/{name}")).decode()
    return dg.MetadataValue.md(f"![{words}](data:image/png;base64,{data})\n\n{caption}".rstrip())


def _configuration(artifact: Artifact, configuration: Configuration, pair: str) -> dict[str, dg.MetadataValue]:
    """Every setting with its origin, and the pair that first requested this training if another recipe had equal
    settings."""
    recipe, first = configuration.recipe, made_for(artifact)
    metadata: dict[str, dg.MetadataValue] = {
        "resolved_configuration": dg.MetadataValue.md(settings_table(shown_settings(recipe, configuration.origins))),
        "configuration_hash": dg.MetadataValue.text(configuration_hash(training_settings(recipe))),
    }
    if first not in ("", pair):
        same = f"{first}: the same settings on the same tokens and base, so nothing was trained again"
        metadata["duplicate_of"] = dg.MetadataValue.text(same)
    return metadata
