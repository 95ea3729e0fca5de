"""A sweep in MLflow: trials carry tags for comparison and are nested below one parent run."""

from ft_assets.records.sweep_decision import Decision, decision_path
from ft_assets.settings.keys import DatasetKey
from ft_assets.settings.tags import SWEEP, WINNER, trial_tags
from ft_resources.tracking import Log, Mirror, shared_mirror


def tell_mlflow(uri: str, log: Log, decision: Decision) -> None:
    """Mirror a decided sweep to the MLflow at ``uri`` (no-op if empty); a failure is only a warning."""
    if not uri:
        return
    mirror = shared_mirror(uri)
    compare(mirror, decision)
    if warning := mirror.flush():
        log.warning(warning)


def compare(mirror: Mirror, decision: Decision) -> None:
    """Tag the trials' runs, including the winner's, and nest them below the sweep's run. Idempotent.

    A trial that shares its training with an earlier recipe uses that recipe's run, which is tagged as well.
    """
    begun = [trial for trial in decision.trials if trial.address]
    for trial in begun:
        tags = trial_tags(decision.sweep, trial.number) | {WINNER: str(trial.number == decision.winner).lower()}
        mirror.tag(trial.address, tags)
    mirror.group(
        decision_path(DatasetKey.parse(decision.dataset).tenant, decision.dataset_digest, decision.recipe_digest),
        name=f"{decision.dataset}|{decision.sweep}",
        tags={SWEEP: decision.sweep, "ft.asset": "sweep"},
        members=[trial.address for trial in begun],
    )
