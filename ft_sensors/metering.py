"""Counts what ended attempts used, ends the promises of ended submissions, and fills the ledger."""

from datetime import UTC, datetime

import dagster as dg

from ft_assets.metering.ledger import Ledger, ledger_url
from ft_assets.metering.quota import release_ended
from ft_assets.metering.sync import recent_months, sync
from ft_assets.metering.usage import count_usage, usage_tenants
from ft_assets.submissions.admission import standing_of
from ft_assets.tenants import TenantsFile, load_tenants
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import UserError
from ft_resources.store import Store
from ft_sensors.pace import at_most

# Tenants whose folders are compared with the ledger in one tick, beside those with new usage.
_TENANTS_A_TICK = 25


@dg.sensor(minimum_interval_seconds=at_most(60), default_status=dg.DefaultSensorStatus.RUNNING)
def metering_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SkipReason:
    """Write usage records and bring the ledger up to them, tenant after tenant."""
    try:
        tenants = load_tenants()
        problems: list[str] = []
        counted = count_usage(store.store, tenants, problems=problems)
        ledger = Ledger(ledger_url())
    except UserError as error:
        return dg.SkipReason(f"usage cannot be counted: {error}")
    try:
        names = usage_tenants(store.store)
        after = [name for name in names if name > (context.cursor or "")][:_TENANTS_A_TICK]
        context.update_cursor(after[-1] if len(after) == _TENANTS_A_TICK else "")
        rows = released = 0
        for name in sorted({*after, *(record.tenant for record in counted)}):
            try:
                late = {record.month for record in counted if record.tenant == name}
                rows += sync(store.store, ledger, tenants, name, months=sorted({*recent_months(), *late}))
                released += len(_release(store.store, tenants, name))
            except UserError as error:
                problems.append(f"{name}: {error.what}")
    finally:
        ledger.close()
    text = f"counted {len(counted)} attempts; looked at {len(after)} tenants: {rows} rows added"
    return dg.SkipReason("; ".join([f"{text}, {released} promises ended", *problems]))


def _release(store: Store, tenants: TenantsFile, tenant: str) -> list[str]:
    return release_ended(
        store, tenants, tenant, lambda submission: standing_of(store, tenant, submission), now=datetime.now(UTC)
    )
