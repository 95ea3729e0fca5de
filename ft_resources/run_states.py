"""Dagster's run statuses in the two kinds that matter here."""

import dagster as dg

_OVER = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
ACTIVE_STATUSES = [status for status in dg.DagsterRunStatus if status not in _OVER]
"""Runs that wait, are about to start, are in progress or are being ended."""
