"""The event for a decision about a rollout."""

from ft_assets.control.notices.event import Event
from ft_assets.control.rollouts.rollouts import RecordKind, read_rollouts
from ft_assets.records.due_notices import Due
from ft_assets.settings.notices import EventKind
from ft_resources.messages import clean, one_line
from ft_resources.store import Store

_SAID: dict[RecordKind, str] = {
    "started": "a rollout started with {weight} % of the traffic",
    "advanced": "its candidate now has {weight} % of the traffic",
    "completed": "its candidate is in production",
    "rolled_back": "its candidate was rolled back",
    "cancelled": "its rollout was cancelled",
}


def rollout_event(store: Store, due: Due) -> Event | None:
    """The event for a record of a line's rollouts; None where another writer's record took its place."""
    line, number = due.path.split("/")[2], int(due.path.rsplit("/", 1)[1].removesuffix(".json"))
    records = [record for rollout in read_rollouts(store, line).rollouts for record in rollout.records]
    record = next((each for each in records if each.seq == number), None)
    if record is None:
        return None
    said = _SAID[record.kind].format(weight=record.weight)
    if record.shadowing:
        said = f"a rollout started: {record.plan.shadow} % of the requests are copied to its candidate"
    facts = {
        "line": line,
        "state": record.kind.replace("_", " "),
        "weight": record.share,
        "candidate": record.candidate.address,
        "incumbent": record.incumbent.address,
        "by": record.actor,
        "record": record.path,
    }
    return Event(
        id=due.id,
        kind=EventKind.ROLLOUT,
        tenant=due.tenant,
        subject=line,
        title=one_line(f"{line}: {said}"),
        at=record.at,
        facts={name: one_line(value) for name, value in facts.items()},
        details=(clean(record.reason), *(clean(each.sentence) for each in record.evidence)),
        remedy=f"Show the outcomes: ft rollout status {line}" if record.going else "",
    )
