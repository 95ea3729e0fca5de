"""Subscribed lines: retrained for each new version of their dataset, and when their recipe's base moves."""

import time
from datetime import UTC, datetime

from ft_assets.api.defaults import actor_or_user, store_or_default, tenants_or_default
from ft_assets.api.steps import Step
from ft_assets.control.base_bumps.bump import covers, find_bump
from ft_assets.control.registry.successors import last_of, successors
from ft_assets.control.registry.versions import latest_versions
from ft_assets.control.submissions.retraining import LineState, Wish, plan_retraining, take_budget
from ft_assets.control.submissions.submit import check_admission, check_wish, submit
from ft_assets.records.retired_recipes import retired_recipes
from ft_assets.records.submissions import FIRST_WISH, Submission, find_submission, submission_id
from ft_assets.settings.tenants import TenantsFile
from ft_resources.errors import UserError
from ft_resources.remembered import Remembered
from ft_resources.store import Store

_SUBMITTED: Remembered[bool] = Remembered()


def retrain(
    *, seconds: float = 30.0, store: Store | None = None, tenants: TenantsFile | None = None, actor: str = ""
) -> Step:
    """Submit every subscribed line that moved on, within the day's budget.

    Two listings tell of all lines; of each pair that was submitted the record is read once in a process's life. What
    takes longer than ``seconds`` is left to the next call, which begins with more of it known. A line whose records
    cannot be read is named, and the rest goes on. Raises UserError for a tenants file that cannot be read.
    """
    store, tenants, actor = store_or_default(store), tenants_or_default(tenants), actor_or_user(actor)
    problems: list[str] = []
    lines = _lines(store, tenants, seconds, problems)
    wishes = [wish for wish in plan_retraining(lines) if _possible(store, tenants, wish, problems)]
    today, per_day = datetime.now(UTC).date(), tenants.retrainings_per_day
    made: list[Submission] = []
    for wish in wishes:
        if not take_budget(store, today, per_day, wish):
            break
        submission, _ = submit(
            store,
            tenants,
            dataset=wish.dataset,
            recipe=wish.recipe,
            actor=actor,
            origin="sensor",
            idempotency_key=FIRST_WISH,
        )
        made.append(submission)
    log = tuple(f"submitted {each.dataset} with {each.recipe}" for each in made)
    held = len(wishes) - len(log)
    over = f"; {held} are queued for tomorrow's budget of {per_day}" if held else ""
    text = f"checked {len(lines)} subscribed lines: {len(log)} submitted{over}"
    return Step(said="; ".join([text, *problems]), worked=len(log), log=log, submitted=tuple(made))


def _possible(store: Store, tenants: TenantsFile, wish: Wish, problems: list[str]) -> bool:
    """Whether the request can be submitted; if not, it is reported and uses none of the day's budget."""
    try:
        check_wish(store, wish.dataset, wish.recipe)
        check_admission(store, tenants, wish.dataset, wish.recipe)
    except UserError as error:
        problems.append(f"{wish.dataset} with {wish.recipe}: {error.what}")
        return False
    return True


def _lines(store: Store, tenants: TenantsFile, seconds: float, problems: list[str]) -> list[LineState]:
    """Where every subscribed line stands: newest dataset version, recipe or its successor, and whether submitted."""
    lines, began, left = [], time.monotonic(), 0
    latest, following = latest_versions(store), successors(store)
    moved, retired = set(following.values()), retired_recipes(store)
    for tenant, settings in sorted(tenants.tenants.items()):
        for subscription in settings.subscriptions:
            if time.monotonic() - began > seconds:
                left += 1
                continue
            try:
                newest = latest.get((tenant, subscription.dataset))
                recipe = last_of(following, subscription.recipe)
                if recipe in retired:
                    continue
                lines.append(_line(store, tenant, str(newest or ""), recipe, successor=recipe in moved))
            except UserError as error:
                problems.append(f"{tenant}.{subscription.dataset} with {subscription.recipe}: {error.what}")
    if left:
        problems.append(f"{left} lines are left to the next tick")
    return lines


def _line(store: Store, tenant: str, dataset: str, recipe: str, *, successor: bool) -> LineState:
    # A successor's pair is submitted by its base bump, which first carries it.
    bump = find_bump(store, recipe) if successor else None

    def submitted() -> bool | None:
        found = find_submission(store, tenant, submission_id(dataset, recipe, FIRST_WISH)) is not None
        return found or (bump is not None and covers(bump, dataset)) or None

    done = bool(dataset) and bool(_SUBMITTED.get(store, f"{dataset}|{recipe}", submitted))
    # Until it is recorded who depends on the old base, every pair may be the bump's.
    return LineState(tenant=tenant, dataset=dataset, recipe=recipe, submitted=done or (successor and bump is None))
