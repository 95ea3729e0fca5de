"""A sweep in MLflow: its trials carry tags to be compared by, and stand below one run for all of them."""

from ft_assets.keys import DatasetKey
from ft_assets.sweeps.decision import Decision, decision_path
from ft_resources.tracking import Log, Mirror, shared_mirror

SWEEP, TRIAL, WINNER = "ft/sweep", "ft/trial", "ft/winner"


def trial_tags(sweep: str, number: int) -> dict[str, str]:
    """The tags of a trial's run, from its first step on; what the sweep set is among the run's parameters."""
    return {SWEEP: sweep, TRIAL: str(number)}


def tell_mlflow(uri: str, log: Log, decision: Decision) -> None:
    """Show a decided sweep in the MLflow at ``uri`` (nothing where it is empty); a failure is a warning."""
    if not uri:
        return
    mirror = shared_mirror(uri)
    compare(mirror, decision)
    if warning := mirror.flush():
        log.warning(warning)


def compare(mirror: Mirror, decision: Decision) -> None:
    """Tag the trials' runs, the winner's too, and put them below one run of the sweep. Doing it again changes nothing.

    A trial that shares its training with an earlier recipe has that one's run, which is tagged as well.
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
