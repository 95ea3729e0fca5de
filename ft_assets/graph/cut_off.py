"""Runs that failed because Dagster's own database did not answer, and not because of what they were asked for.

Dagster writes an event at every boundary of a step. Where that fails, the step has failed with it, and run retries pass
over failed steps on purpose, as a failed gate is one. What the run made is kept, so another run finds it.
"""

import re
from typing import Any

import dagster as dg

from ft_assets.control.submissions.failures import chain_of, is_ours

# A database that was away, a connection that was cut. Mistakes in SQL or in data (ProgrammingError, IntegrityError and
# the like) would be the same again. Only SQLAlchemy's: Dagster uses its databases through nothing else.
_AWAY = re.compile(
    r"(sqlalchemy\.exc\.(OperationalError|InterfaceError|DatabaseError|TimeoutError|PendingRollbackError)"
    r"|dagster_postgres\.utils\.DagsterPostgresException)\b"
)
# Of one run; its steps follow each other, so more than a few cannot fail.
_MOST_STEPS = 20


def was_cut_off(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Whether a run failed only because Dagster's database did not answer."""
    found = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.STEP_FAILURE, limit=_MOST_STEPS).records
    events = (record.event_log_entry.dagster_event for record in found)
    return all_cut_off([event.step_failure_data for event in events if event])


def all_cut_off(failures: list[Any]) -> bool:
    """The same, from the data of a run's step failures (``StepFailureData``). False for an empty sequence: the cause is
    unknown."""
    return bool(failures) and all(
        # A ``dg.Failure`` is raised on purpose.
        failure.user_failure_data is None and is_databases(chain_of(failure.error))
        for failure in failures
    )


def is_databases(chain: list[tuple[str, str]]) -> bool:
    """Whether an error comes from a database that does not answer, and nothing in its chain is an error of ours.

    Args:
        chain: class name and text of the error and of its causes, outermost first; texts begin with the class's full
        name, as Python writes them.
    """
    return any(_AWAY.match(text) for _, text in chain) and not any(is_ours(*each) for each in chain)
