"""Derive events from the records of what happened. None if a record does not exist (yet), or is out of date."""

from collections.abc import Callable

from ft_assets.control.base_bumps.bump import BaseBump, find_bump
from ft_assets.control.base_bumps.progress import standings
from ft_assets.control.base_bumps.report import summary
from ft_assets.control.identity.review import review_of
from ft_assets.control.lines.lines import PromotionRecord, read_line
from ft_assets.control.lines.releases import find_release
from ft_assets.control.notices.event import Event
from ft_assets.control.notices.queue_alerts import queue_event
from ft_assets.control.notices.rollouts import rollout_event
from ft_assets.control.notices.runs import FailedRun
from ft_assets.control.notices.serving_drift import drift_event, drifting_tenants
from ft_assets.control.notices.training_alerts import alert_event
from ft_assets.control.submissions.failures import remedy_of
from ft_assets.records.due_notices import Due, Source
from ft_assets.records.submissions import SubmissionStatus, find_outcome, find_submission
from ft_assets.settings.keys import SHARED, DatasetKey
from ft_assets.settings.notices import EventKind
from ft_assets.settings.ungated import NOT_JUDGED
from ft_resources.artifacts import Artifacts
from ft_resources.errors import MissingInput
from ft_resources.messages import clean, one_line
from ft_resources.store import Store

_KINDS = {
    "deprecated": EventKind.DEPRECATED,
    "archived": EventKind.ARCHIVED,
    "rollback": EventKind.ROLLED_BACK,
    "promotion": EventKind.PROMOTED,
}


def describe(store: Store, due: Due) -> Event | None:
    """The event for a record. Raises UserError for unreadable records."""
    makers: dict[Source, Callable[[], Event | None]] = {
        "submission": lambda: _submission(store, due),
        "line": lambda: _line(store, due),
        "base_bump": lambda: _base_bump(store, due),
        "base_release": lambda: _base_release(store, due),
        "held": lambda: _held(store, due),
        "run": lambda: _run(store, due),
        "queue": lambda: queue_event(store, due),
        "alert": lambda: alert_event(store, due),
        "rollout": lambda: rollout_event(store, due),
        "drift": lambda: drift_event(store, due),
    }
    return makers[due.source]()


def concerned(store: Store, due: Due) -> list[str]:
    """The tenants affected by a platform event: those that depend on a base, or whose lines are not served as they
    should be."""
    if due.tenant == SHARED and due.source == "drift":
        return drifting_tenants(store, due)
    if due.tenant != SHARED or due.source not in ("base_bump", "base_release"):
        return []
    bump = find_bump(store, _name(due))
    return sorted({DatasetKey.parse(each.dataset).tenant for each in bump.dependents}) if bump else []


def _submission(store: Store, due: Due) -> Event | None:
    submission = find_submission(store, due.tenant, due.path.split("/")[2])
    outcome = find_outcome(store, submission) if submission else None
    if submission is None or outcome is None:
        return None
    failure = outcome.failure
    facts = {"submission": submission.id, "dataset": submission.dataset, "recipe": submission.recipe}
    facts |= {"asked by": submission.actor, "mode": submission.mode}
    details = [clean(outcome.reason)] if outcome.reason else []
    ended = f"was {outcome.told}"
    if outcome.status is SubmissionStatus.UNGATED:
        ended = "ended ungated"
        facts["result"] = outcome.adapter
        details.append(NOT_JUDGED)
    elif outcome.adapter:
        facts["adapter"] = outcome.adapter
        details.append("It passed every gate and is registered.")
    elif outcome.status is SubmissionStatus.FAILED:
        ended = "failed"
    if failure:
        facts |= {"asset": failure.asset} if failure.asset else {}
        details += [failure.where] if failure.where else []
    return Event(
        id=due.id,
        kind=EventKind(outcome.status),
        tenant=due.tenant,
        subject=submission.id,
        title=one_line(f"{submission.dataset} with {submission.recipe} {ended}"),
        at=outcome.at,
        facts={name: one_line(value) for name, value in facts.items()},
        details=tuple(details),
        cause=failure.cause if failure else "",
        blame=failure.blame if failure else "",
        remedy=remedy_of(submission, outcome),
        suggestions=tuple(one_line(text) for text in outcome.suggestions),
    )


def _line(store: Store, due: Due) -> Event | None:
    line, number = due.path.split("/")[2], int(due.path.rsplit("/", 1)[1].removesuffix(".json"))
    records = read_line(store, line).records
    if len(records) < number:
        return None
    record: PromotionRecord = records[number - 1]
    kind = _KINDS.get(record.stage) or _KINDS[record.kind]
    where = {EventKind.PROMOTED: f" to {record.stage}", EventKind.ROLLED_BACK: f" in {record.stage}"}.get(kind, "")
    facts = {"line": line, "adapter": record.adapter.address, "dataset": record.dataset, "recipe": record.recipe}
    facts |= {"by": record.actor, "replaces": record.replaces or "nothing", "record": record.path}
    words = kind.value.replace("_", " ")
    return Event(
        id=due.id,
        kind=kind,
        tenant=due.tenant,
        subject=line,
        title=one_line(f"{line}: {words}{where}"),
        at=record.at,
        facts={name: one_line(value) for name, value in facts.items()},
        details=(clean(record.reason), *(clean(each) for each in record.findings)),
    )


def _base_bump(store: Store, due: Due) -> Event | None:
    bump = find_bump(store, _name(due))
    if bump is None:
        return None
    mine = _part_of(bump, due.tenant)
    lines = [f"{each.line}: {each.dataset}, {each.adapter.address}" for each in mine.dependents]
    carried = (
        "Each adapter is carried to the new base and evaluated there; only those that fail are retrained, "
        "within the budget."
    )
    return Event(
        id=due.id,
        kind=EventKind.BASE_MOVED,
        tenant=due.tenant,
        subject=bump.recipe,
        title=one_line(
            f"new base revision: {bump.recipe} uses it, {len(mine.dependents)} adapters depend on the old one"
        ),
        at=bump.at,
        facts={"recipe": bump.recipe, "adapters": str(len(mine.dependents)), "by": bump.actor},
        details=tuple([carried, *lines[:50]] if lines else ["No adapter depends on the old one."]),
        remedy=f"Show their progress: ft base-bump {bump.recipe}",
    )


def _base_release(store: Store, due: Due) -> Event | None:
    recipe = _name(due)
    release, bump = find_release(store, recipe), find_bump(store, recipe)
    if release is None:
        return None
    how = summary(standings(store, _part_of(bump, due.tenant))) if bump else "no adapter depended on it"
    reason = [clean(release.reason)] if due.tenant == SHARED else []
    return Event(
        id=due.id,
        kind=EventKind.BASE_RELEASED,
        tenant=due.tenant,
        subject=recipe,
        title=one_line(f"the base of {recipe} is released: adapters on it may be promoted to production"),
        at=release.at,
        facts={"recipe": recipe, "by": one_line(release.actor)},
        details=(*reason, how),
    )


def _part_of(bump: BaseBump, tenant: str) -> BaseBump:
    """The part of a bump that a tenant may see: its own dependents. The platform may see all."""
    if tenant == SHARED:
        return bump
    mine = tuple(each for each in bump.dependents if DatasetKey.parse(each.dataset).tenant == tenant)
    return bump.model_copy(update={"dependents": mine})


def _held(store: Store, due: Due) -> Event | None:
    dataset = due.path.split("/")[2]
    try:
        review = review_of(Artifacts(store), dataset)
    except MissingInput:
        return None
    if review.state != "held":
        return None
    return Event(
        id=due.id,
        kind=EventKind.HELD,
        tenant=due.tenant,
        subject=dataset,
        title=one_line(f"{dataset} is held for review"),
        at=due.at.isoformat(timespec="seconds"),
        facts={"dataset": dataset},
        details=tuple(clean(reason) for reason in review.reasons),
        remedy=f"Read its report with `ft dataset report {dataset}`; then approve it with `ft dataset approve "
        f"{dataset} "
        '--note "why it may be used"`, or add a corrected version.',
    )


def _run(store: Store, due: Due) -> Event | None:
    failed = FailedRun.find(store, due.path)
    if failed is None or failed.tenant != due.tenant:
        return None
    failure = failed.failure
    facts = {
        "run": failed.run,
        "job": failed.job,
        "partition": failed.partition,
        "asset": failure.asset,
    }
    what = f"{failure.asset or failed.job}{f' of {failed.partition}' if failed.partition else ''}"
    return Event(
        id=due.id,
        kind=EventKind.RUN_FAILED,
        tenant=due.tenant,
        subject=failed.run,
        title=one_line(f"a run failed: {what}"),
        at=failed.at,
        facts={name: one_line(value) for name, value in facts.items() if value},
        details=tuple(text for text in (failure.sentence, failure.where) if text),
        cause=failure.cause,
        blame=failure.blame,
        remedy=failure.remedy,
    )


def _name(due: Due) -> str:
    """The recipe key in the path of a base's record."""
    return due.path.rsplit("/", 1)[1].removesuffix(".json")
