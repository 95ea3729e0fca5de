"""Tags that the platform sets on runs and assets, and reads."""

# Id of the submission that a run works for.
SUBMISSION = "ft/submission"
# Set on runs whose caller waits in the foreground, where Ctrl-C means "stop the work".
FOREGROUND = "ft/foreground"
# The trial of a sweep that a run trains; on MLflow's runs, its number.
TRIAL = "ft/trial"
# On MLflow's runs: the trial's sweep, and whether the trial won.
SWEEP = "ft/sweep"
WINNER = "ft/winner"
# On the run of a pair, how it ended: `accepted`, `rejected` or `ungated`. Each time the run is a success to Dagster.
VERDICT = "ft/verdict"
# Number of relaunches after runs that lost Dagster's database; not set on the first launch.
AGAIN = "ft/again"
# How often the submission had been resumed when this run was launched; not set before the first resumption.
RESUMED = "ft/resumed"
# On a run that pulls a source: the dataset, and what names the rows that the source had.
SOURCE = "ft/source"
SOURCE_ROWS = "ft/source-rows"
ACTOR = "ft/actor"
TENANT = "ft/tenant"
# How many pairs a backfill may have; set by hand on a backfill that is larger than the limit on purpose.
ALLOW_PAIRS = "ft/allow-pairs"
# On the jobs that train: dagster.yaml limits how many of them run at once.
TRAINS = "ft/trains"
# On a training's run: its tenant's tier, so that an instance may limit how many of a tier wait at once.
TRAINS_TIER = "ft/trains-tier"
# On a training's run, "true" if the tier's priority is not `production`: it leaves places for production runs.
YIELDS = "ft/yields"
# On assets: what a materialization occupies (`none`, `cpu`, `gpu`); the UI selects by `tag:"ft/worker"="gpu"`.
WORKER = "ft/worker"
# Dagster's own tag: runs with higher values leave the queue first.
PRIORITY = "dagster/priority"


def trial_tags(sweep: str, number: int) -> dict[str, str]:
    """The tags of a trial's MLflow run, from its first step on; the run's parameters include the swept values."""
    return {SWEEP: sweep, TRIAL: str(number)}
