"""Promotion to staging by itself: where an accepted adapter's recipe sets a margin, and its gain reaches that."""

from ft_assets.adapters.lines import read_line
from ft_assets.adapters.promotion import Decision, promote
from ft_assets.evals.evidence import PERPLEXITY, relative_gain
from ft_assets.recipes.register import get_recipe
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import UserError
from ft_resources.tracking import Log

ACTOR = "auto"


def promote_by_margin(artifacts: Artifacts, adapter: Artifact, log: Log) -> bool:
    """Promote a new adapter to staging where its recipe's margin says so; whether it was.

    An adapter that its line's log names already, or that is older than the log's last record, stays where it is: to
    materialize it again promotes nothing. What stands in the way is a warning, as the adapter is accepted all the same.
    """
    line = str(adapter.facts["line"])
    try:
        reason = margin_reached(artifacts, adapter)
        records = read_line(artifacts.store, line).records
        known = any(record.adapter.address == str(adapter.address) for record in records)
        if not reason or known or (records and records[-1].at > adapter.manifest.created_at):
            return False
        promote(artifacts, str(adapter.address), "staging", Decision(actor=ACTOR, reason=reason, log=log))
    except UserError as error:
        log.warning(f"{adapter.address} was not promoted to staging by itself: {error.what}")
        return False
    return True


def margin_reached(artifacts: Artifacts, adapter: Artifact) -> str:
    """Why the adapter goes to staging by itself, empty where it does not."""
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
    return f"{metric} {base:.4g} → {candidate:.4g}: a gain of {gain:.3g}, and the recipe's margin is {margin:g}"
