"""Whose name records keep of what Dagster runs. A run's tags prove nothing: whoever launches it writes them."""

import dagster as dg

from ft_assets.control.access.identities import actor_in_dagster
from ft_assets.graph.runs import submission_of
from ft_assets.settings.environment import operator
from ft_resources.store import Store


def launching() -> str:
    """Who launched a run by hand: who runs the deployment, as nobody else may open Dagster's pages."""
    return actor_in_dagster(operator())


def acting(context: dg.AssetExecutionContext, store: Store) -> str:
    """Who asked for the work: as the store has it of the submission that the run names, if that is about the run's
    partition, else who launched the run."""
    found = submission_of(context.run.tags, store)
    # Only the dataset of a pair is compared: the submission of a sweep does not name its trials' recipes.
    if found is not None and context.partition_key.partition("|")[0] in (found.dataset, found.recipe):
        return found.actor
    return launching()
