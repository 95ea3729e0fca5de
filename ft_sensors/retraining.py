"""Submits subscribed lines whose dataset has a new version or whose recipe has a successor (its base moved)."""

import time
from datetime import UTC, datetime

import dagster as dg

from ft_assets.base_bumps.bump import covers, find_bump
from ft_assets.datasets.versions import latest_versions
from ft_assets.recipes.successors import last_of, successors
from ft_assets.submissions.record import FIRST_WISH, check_admission, check_wish, find_submission, submission_id, submit
from ft_assets.submissions.retraining import LineState, Wish, plan_retraining, take_budget
from ft_assets.tenants import TenantsFile, load_tenants
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import UserError
from ft_resources.remembered import Remembered
from ft_resources.store import Store
from ft_sensors.pace import at_most

# A tick has 60 s; only the first of a process has much to read.
_TICK_S = 30.0
_SUBMITTED: Remembered[bool] = Remembered()


@dg.sensor(minimum_interval_seconds=at_most(30), default_status=dg.DefaultSensorStatus.RUNNING)
def retraining_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SkipReason:
    """Record a submission for every subscribed line that moved on; the submissions sensor launches it."""
    try:
        tenants = load_tenants()
    except UserError as error:
        return dg.SkipReason(f"the tenants file cannot be used: {error}")
    problems: list[str] = []
    lines = subscribed_lines(store.store, tenants, problems)
    wishes = [wish for wish in plan_retraining(lines) if _possible(store.store, wish, problems)]
    today = datetime.now(UTC).date()
    submitted = 0
    for wish in wishes:
        if not take_budget(store.store, today, tenants.retrainings_per_day, wish):
            break
        submit(
            store.store,
            dataset=wish.dataset,
            recipe=wish.recipe,
            actor="retraining_sensor",
            origin="sensor",
            idempotency_key=FIRST_WISH,
        )
        context.log.info(f"submitted {wish.dataset} with {wish.recipe}")
        submitted += 1
    held = len(wishes) - submitted
    over = f"; {held} wait for tomorrow's budget of {tenants.retrainings_per_day}" if held else ""
    return dg.SkipReason(
        "; ".join([f"looked at {len(lines)} subscribed lines: {submitted} submitted{over}", *problems])
    )


def _possible(store: Store, wish: Wish, problems: list[str]) -> bool:
    """Whether the wish can be submitted; otherwise it is named, and takes nothing of the day's budget."""
    try:
        check_wish(store, wish.dataset, wish.recipe)
        check_admission(store, wish.dataset, wish.recipe)
    except UserError as error:
        problems.append(f"{wish.dataset} with {wish.recipe}: {error.what}")
        return False
    return True


def subscribed_lines(store: Store, tenants: TenantsFile, problems: list[str]) -> list[LineState]:
    """Where every subscribed line stands: newest dataset version, recipe or its successor, and whether submitted.

    Two listings tell of all lines; of each pair that was submitted the record is read once in a process's life. What
    takes longer than ``_TICK_S`` is left to the next tick, which begins with more of it known. A line whose records
    cannot be read is added to ``problems``, and the rest goes on.
    """
    lines, began, left = [], time.monotonic(), 0
    latest, following = latest_versions(store), successors(store)
    moved = set(following.values())
    for tenant, settings in sorted(tenants.tenants.items()):
        for subscription in settings.subscriptions:
            if time.monotonic() - began > _TICK_S:
                left += 1
                continue
            try:
                newest = latest.get((tenant, subscription.dataset))
                recipe = last_of(following, subscription.recipe)
                lines.append(_line(store, tenant, str(newest or ""), recipe, successor=recipe in moved))
            except UserError as error:
                problems.append(f"{tenant}.{subscription.dataset} with {subscription.recipe}: {error.what}")
    if left:
        problems.append(f"{left} lines are left to the next tick")
    return lines


def _line(store: Store, tenant: str, dataset: str, recipe: str, *, successor: bool) -> LineState:
    # A successor's pair is its base bump's to submit, which carries it before anything is trained.
    bump = find_bump(store, recipe) if successor else None

    def submitted() -> bool | None:
        found = find_submission(store, tenant, submission_id(dataset, recipe, FIRST_WISH)) is not None
        return found or (bump is not None and covers(bump, dataset)) or None

    done = bool(dataset) and bool(_SUBMITTED.get(store, f"{dataset}|{recipe}", submitted))
    # Until it is recorded who depends on the old base, every pair may be the bump's.
    return LineState(tenant=tenant, dataset=dataset, recipe=recipe, submitted=done or (successor and bump is None))
