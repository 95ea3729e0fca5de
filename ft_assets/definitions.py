"""The code location: what ``graph`` declares, and the sensors of ``ft_sensors``."""

import warnings

import dagster as dg

from ft_assets.graph.declared import declared
from ft_resources.environment import default_store_url, warn_of_unknown_variables
from ft_sensors.ageing import ageing_sensor
from ft_sensors.base_bumps import base_bump_sensor
from ft_sensors.base_revisions import base_revision_sensor
from ft_sensors.leftovers import leftovers_sensor
from ft_sensors.metering import metering_sensor
from ft_sensors.notices import notices_sensor
from ft_sensors.orphans import orphans_sensor
from ft_sensors.queue import queue_sensor
from ft_sensors.retention import retention_sensor
from ft_sensors.retraining import retraining_sensor
from ft_sensors.rollouts import rollouts_sensor
from ft_sensors.run_failures import run_failures_sensor
from ft_sensors.shadow_judges import shadow_judges_sensor
from ft_sensors.sources import sources_sensor
from ft_sensors.submissions import submissions_sensor


def build_definitions(store_url: str) -> dg.Definitions:
    """The whole project over the store at ``store_url``."""
    return declared(
        store_url,
        sensors=[
            submissions_sensor,
            sources_sensor,
            retraining_sensor,
            base_revision_sensor,
            base_bump_sensor,
            rollouts_sensor,
            shadow_judges_sensor,
            run_failures_sensor,
            notices_sensor,
            queue_sensor,
            metering_sensor,
            retention_sensor,
            leftovers_sensor,
            orphans_sensor,
            ageing_sensor,
        ],
    )


# Dagster copies every sensor, and warns each time of a parameter that nobody gave.
warnings.filterwarnings("ignore", "Parameter `owners`", dg.BetaWarning)
warn_of_unknown_variables()
defs = build_definitions(default_store_url())
