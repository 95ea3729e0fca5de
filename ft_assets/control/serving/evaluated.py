"""What an adapter was evaluated as: its files, its base's, and the prompts that its evaluation asked."""

from collections.abc import Iterable
from pathlib import Path

from ft_assets.settings.recipe.acceptance import EvaluationSettings
from ft_assets.workers.evals.samples import ITEM_ID, parse_samples
from ft_assets.workers.serving.parity.asked_prompts import Evaluated
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.canonical import canonical_json
from ft_resources.errors import UserError

_CONFIG = "adapter_config.json"
_HOLDOUT = "holdout.parquet"
# Roles of suites among a report's inputs, see ``identity.reports.suite_inputs``.
_SUITES = ("suite", "safety", "shown")


def evaluated_as(artifacts: Artifacts, adapter: Artifact, scratch: Path) -> Evaluated:
    """Everything verified, in place or copied below ``scratch``.

    Raises UserError for a model with weights of its own, which no server has beside its base, and where something that
    the evaluation read is gone.
    """
    if _CONFIG not in adapter.manifest.files:
        raise UserError(
            "this is a complete model, not an adapter",
            where=str(adapter.address),
            remedy="Parity is checked for adapters.",
        )
    report = artifacts.get(Address.parse(adapter.manifest.inputs["eval_report"].address))
    inputs, params = report.manifest.inputs, report.manifest.identity["params"]

    def get(name: str) -> Artifact:
        return artifacts.get(Address.parse(inputs[name].address))

    settings = EvaluationSettings.model_validate_json(canonical_json(params["evaluation"]))
    dataset = get("dataset")
    suites = {key: get(name) for name in inputs for role, _, key in [name.partition(":")] if role in _SUITES}
    return Evaluated(
        base=get("base").folder(scratch / "base"),
        adapter=adapter.folder(scratch / "adapter"),
        chat_template=params["chat_template"],
        holdout=dataset.path(_HOLDOUT, scratch / "dataset"),
        form=dataset.facts.get("form", "chat"),
        suites={key: suite.folder(scratch / "suites") for key, suite in suites.items()},
        scores=_scores(report, suites),
        seed=settings.seed,
        max_new_tokens=settings.holdout.max_new_tokens,
    )


def _scores(report: Artifact, suites: Iterable[str]) -> dict[str, dict[str, float]]:
    """The candidate's score on each item of the suites that have right answers."""
    scores = {}
    for key in suites:
        if (file := f"samples/{key}.parquet") in report.manifest.files:
            samples = parse_samples(report.read(file), file)
            scores[key] = dict(zip(samples[ITEM_ID], samples["candidate"], strict=True))
    return scores
