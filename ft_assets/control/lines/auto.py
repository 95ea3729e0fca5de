"""Automatic promotion to staging, if an accepted adapter's gain reaches the margin in its recipe."""

from ft_assets.control.identity import require_gated
from ft_assets.control.lines.lines import read_line
from ft_assets.control.lines.promotion import Decision, promote
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.workers.evals.evidence import PERPLEXITY, relative_gain
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import UserError
from ft_resources.tracking import Log

ACTOR = "auto"


def promote_by_margin(artifacts: Artifacts, adapter: Artifact, log: Log) -> bool:
    """Promote a new adapter to staging if it reaches its recipe's margin; returns whether it did.

    An adapter that is already in its line's log, or older than the log's last record, stays where it is:
    materializing it again promotes nothing. Obstacles only cause a warning, since the adapter is accepted anyway.
    """
    line = str(adapter.facts["line"])
    try:
        require_gated(adapter.manifest.identity["params"], str(adapter.address))
        reason = margin_reached(artifacts, adapter)
        records = read_line(artifacts.store, line).records
        known = any(record.adapter.address == str(adapter.address) for record in records)
        if not reason or known or (records and records[-1].at > adapter.manifest.created_at):
            return False
        promote(artifacts, str(adapter.address), "staging", Decision(actor=ACTOR, reason=reason, log=log))
    except UserError as error:
        log.warning(f"{adapter.address} was not promoted to staging automatically: {error.what}")
        return False
    return True


def margin_reached(artifacts: Artifacts, adapter: Artifact) -> str:
    """Why the adapter is promoted automatically; empty if it is not."""
    params = adapter.manifest.identity["params"]
    settings = get_recipe(artifacts.store, str(params["recipe"])).recipe.promotion
    metric = str(params["gates"]["task_gain"]["metric"])
    scores = adapter.facts["metrics"].get(metric)
    if settings is None or scores is None:
        return ""
    base, candidate = float(scores["base"]), float(scores["candidate"])
    higher = metric != PERPLEXITY
    gain = relative_gain(base, candidate, higher_is_better=higher)
    if gain is None:
        gain = candidate - base if higher else base - candidate
    if gain < settings.staging_margin:
        return ""
    margin = settings.staging_margin
    return f"{metric} {base:.4g} → {candidate:.4g}: a gain of {gain:.3g} (required by the recipe: {margin:g})"
