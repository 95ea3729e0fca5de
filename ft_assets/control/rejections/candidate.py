"""Collect a rejected candidate's curves, settings and answers, and derive suggestions. Reads its own tenant only."""

from collections.abc import Sequence
from typing import Any

from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.rejections.curves import Curves, read_curves
from ft_assets.control.rejections.past import Conditions, past_runs
from ft_assets.control.rejections.suggest import Observed, Suggestion, suggest
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.adapters.carried_checkpoint import SOURCE
from ft_assets.workers.base_models.context import context_length
from ft_assets.workers.evals.samples import parse_samples
from ft_assets.workers.evals.verdict import Verdict
from ft_assets.workers.evals.verdicts import load_evidence
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.canonical import canonical_json
from ft_resources.errors import StoreUnavailable, UserError
from ft_resources.work import WorkRequest

_STEPS = "report/steps.jsonl"
_HOLDOUT = "samples/holdout.parquet"
_CONFIG = "config.json"


def suggestions_for(artifacts: Artifacts, request: WorkRequest, verdicts: Sequence[Verdict]) -> list[Suggestion]:
    """What to try instead of the candidate of ``request``.

    Missing or damaged evidence gives fewer suggestions and no error: the verdicts report it.
    Raises StoreUnavailable.
    """
    try:
        checkpoint = artifacts.get(Address.parse(request.inputs["checkpoint"].address))
        registered = get_recipe(artifacts.store, str(request.params["recipe"])).recipe
        recipe = trained_settings(registered, checkpoint)
    except StoreUnavailable:
        raise
    except (UserError, KeyError):
        return []
    carried = checkpoint.manifest.inputs.get(SOURCE)
    conditions = Conditions.of(request.params, request.inputs)
    past = [
        run
        for run in past_runs(artifacts, request.tenant)
        if run.conditions == conditions and run.adapter != str(request.address)
    ]
    return suggest(
        curves_of(checkpoint),
        recipe,
        verdicts,
        # The same weights accepted earlier (under looser gates, say) are not a different example.
        [run for run in past if run.checkpoint != str(checkpoint.address)],
        Observed(
            line=str(request.params["line"]),
            checkpoint_of=carried.address if carried else "",
            context=_context(artifacts, checkpoint),
            **_pack_facts(artifacts, checkpoint),
            **_report_facts(artifacts, request),
        ),
        registered,
    )


def trained_settings(recipe: Recipe, checkpoint: Artifact) -> Recipe:
    """The recipe with the settings that the checkpoint was really trained with: the winner's for a sweep, and resolved
    values for ``auto``. The recipe itself if the checkpoint has no record of them. Raises CorruptArtifact."""
    if "recipe.json" not in checkpoint.manifest.files:
        return recipe
    settings: dict[str, Any] = recipe.model_dump(mode="json")
    try:
        told = checkpoint.read_json("recipe.json")
        for section in ("training", "lora"):
            settings[section] = {**settings[section], **(told.get(section) or {})}
        return Recipe.model_validate_json(canonical_json(settings))
    except (ValueError, TypeError, AttributeError):
        return recipe


def curves_of(checkpoint: Artifact) -> Curves:
    """The training's curves; empty if none can be read."""
    if _STEPS not in checkpoint.manifest.files:
        return Curves()
    try:
        return read_curves(checkpoint.read(_STEPS).decode(errors="replace").splitlines())
    except StoreUnavailable:
        raise
    except UserError:
        return Curves()


def _pack_facts(artifacts: Artifacts, checkpoint: Artifact) -> dict[str, Any]:
    ref = checkpoint.manifest.inputs.get("pack")
    facts = _facts(artifacts, ref.address) if ref else {}
    tokens, learned = facts.get("tokens"), facts.get("learned_tokens")
    examples, dropped = facts.get("examples"), facts.get("dropped")
    return {
        "learned": learned / tokens if tokens and learned is not None else None,
        "left_out": dropped / (examples + dropped) if examples and dropped is not None else None,
    }


def _context(artifacts: Artifacts, checkpoint: Artifact) -> int | None:
    """Most tokens that the candidate's base reads at once; None if its config is not available."""
    ref = checkpoint.manifest.inputs.get("base")
    base = _find(artifacts, ref.address) if ref else None
    if base is None or _CONFIG not in base.manifest.files:
        return None
    return context_length(base.read(_CONFIG))


def _report_facts(artifacts: Artifacts, request: WorkRequest) -> dict[str, Any]:
    """Number of rows scored, number of rows held out, and share of truncated answers."""
    try:
        report = artifacts.get(Address.parse(request.inputs["eval_report"].address))
        evidence = load_evidence(report)
    except StoreUnavailable:
        raise
    except UserError:
        return {}
    ref = report.manifest.inputs.get("dataset")
    rows = _facts(artifacts, ref.address).get("rows", {}) if ref else {}
    return {"scored": evidence.rows, "held": rows.get("holdout"), "cut": _cut_share(report)}


def _cut_share(report: Artifact) -> float | None:
    """The share of the candidate's answers that were truncated; None if not recorded."""
    if _HOLDOUT not in report.manifest.files:
        return None
    try:
        cut = parse_samples(report.read(_HOLDOUT), _HOLDOUT).get("candidate_cut")
    except StoreUnavailable:
        raise
    except UserError:
        return None
    return sum(map(bool, cut)) / len(cut) if cut else None


def _facts(artifacts: Artifacts, address: str) -> dict[str, Any]:
    found = _find(artifacts, address)
    return dict(found.facts) if found else {}


def _find(artifacts: Artifacts, address: str) -> Artifact | None:
    """The artifact there; None if there is none that can be read."""
    try:
        return artifacts.find(Address.parse(address))
    except StoreUnavailable:
        raise
    except UserError:
        return None
