"""Run tags that the platform sets and reads."""

# The submission that a run works for.
SUBMISSION = "ft/submission"
# Set on runs whose caller waits in the foreground, where Ctrl-C means "stop the work".
FOREGROUND = "ft/foreground"
# The trial of a sweep that a run trains; on MLflow's runs, its number.
TRIAL = "ft/trial"
# Which launch after runs that were cut off from Dagster's database a run is; not set on a first one.
AGAIN = "ft/again"
ACTOR = "ft/actor"
TENANT = "ft/tenant"
# How many pairs a backfill may have, set by hand on a backfill that is larger than the limit on purpose.
ALLOW_PAIRS = "ft/allow-pairs"
# On the jobs that train: dagster.yaml limits how many of them run at once.
TRAINS = "ft/trains"
# On a training's run: the tier of its tenant, so that an instance may limit how many of a tier wait at once.
TRAINS_TIER = "ft/trains-tier"
# On a training's run, "true" where the tier's priority is not `production`: it leaves places to those whose is.
YIELDS = "ft/yields"
# Dagster's own: runs with larger numbers leave the queue first.
PRIORITY = "dagster/priority"
