"""Looks at the watched sources of datasets, and launches a run for each that has rows which were not pulled."""

import time
from functools import partial

import dagster as dg

from ft_assets import api
from ft_assets.api import News
from ft_assets.graph.jobs.sources import pull_dataset_job
from ft_assets.graph.upstream_assets import last_materialization
from ft_assets.settings import tags
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import UserError
from ft_resources.run_states import ACTIVE_STATUSES
from ft_sensors.ticks import at_most, said, sensor

# A source that cannot be read is read again after so many seconds, twice as many after each failure.
_AGAIN_S, _MOST_AGAIN_S = 60.0, 6 * 3600.0


@sensor(every=at_most(60), jobs=[pull_dataset_job])
def sources_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult | dg.SkipReason:
    """Add a version to a watched dataset when its source has other rows: files of a bucket, rows of a database, a
    commit on the Hub, or a materialization of an upstream asset."""
    try:
        materialized = partial(last_materialization, context.instance)
        news, step = api.news_of_sources(materialized, after=context.cursor or "", store=store.store)
    except UserError as error:
        return dg.SkipReason(f"sources cannot be read: {error}")
    for warning in step.warnings:
        context.log.warning(warning)
    requests = [request for each in news if (request := _request(context.instance, each)) is not None]
    if requests:
        context.log.info(f"{len(requests)} launched; {step.said}")
        return dg.SensorResult(run_requests=requests, cursor=step.after)
    context.update_cursor(step.after)
    return said(step.said, worked=0)


def _request(instance: dg.DagsterInstance, news: News) -> dg.RunRequest | None:
    """A run that pulls; None while one does, and for a while after one failed."""
    of_dataset = {tags.SOURCE: news.dataset}
    if instance.get_runs_count(dg.RunsFilter(tags=of_dataset, statuses=ACTIVE_STATUSES)):
        return None
    named = {**of_dataset, tags.SOURCE_ROWS: news.key[:32]}
    ended = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
    failed = instance.get_run_records(dg.RunsFilter(tags=named, statuses=ended))
    if failed:
        waits = min(_AGAIN_S * 2.0 ** (len(failed) - 1), _MOST_AGAIN_S)
        if time.time() < max(record.end_time or 0.0 for record in failed) + waits:
            return None
    # Without a run key, by which Dagster would never again pull what a source had before and has once more.
    return dg.RunRequest(
        run_config={"ops": {"pull_rows": {"config": {"dataset": news.dataset, "seen": news.seen}}}},
        tags={**named, tags.TENANT: news.tenant},
    )
