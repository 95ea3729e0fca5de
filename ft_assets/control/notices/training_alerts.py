"""The event for an alert of a running training."""

from ft_assets.control.notices.event import Event
from ft_assets.records.due_notices import Due
from ft_assets.records.submissions import find_submission
from ft_assets.records.training_alerts import TrainingAlert
from ft_assets.settings.notices import EventKind
from ft_resources.messages import clean, one_line
from ft_resources.store import Store


def alert_event(store: Store, due: Due) -> Event | None:
    """The event for an alert; None where its submission is gone."""
    found = TrainingAlert.find(store, due.path)
    submission = find_submission(store, due.tenant, due.path.split("/")[2]) if found else None
    if found is None or submission is None:
        return None
    return Event(
        id=due.id,
        kind=EventKind.ALERT,
        tenant=due.tenant,
        subject=submission.id,
        title=one_line(f"alert in the training of {submission.dataset} with {submission.recipe}"),
        at=found.at,
        facts={
            "submission": submission.id,
            "asked by": one_line(submission.actor),
            "training": found.address,
            "attempt": str(found.attempt),
        },
        details=(clean(found.told),),
        remedy=f"Read its log: ft logs {submission.id}. The training continues.",
    )
