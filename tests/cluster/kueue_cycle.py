"""One scheduling cycle of Kueue without fair sharing: who is admitted, and who gives way to whom. Pure.

Written from https://kueue.sigs.k8s.io/docs/concepts/preemption/ ("Classic Preemption") and .../cluster_queue/, and for
Cohorts below Cohorts from Kueue 0.19 itself (pkg/scheduler/preemption/classical): who asks within what a Cohort above
it reserved takes it back from those outside who borrowed it, whatever their priority; who would borrow itself takes
only from lower priorities, up to `maxPriorityThreshold`. Not here: fair sharing, topology, admission checks, partial
admission, and capacity that Kueue reserves for work that cannot preempt.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tests.cluster.kueue_quota import Node, Place, QuotaTree, Usage

Reason = Literal["InClusterQueue", "InCohortReclamation", "InCohortReclaimWhileBorrowing"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """Waiting work: what it would use of each flavour that its pods may have, in the queue's order."""

    key: str
    queue: str
    priority: int
    since: float
    ways: tuple[Usage, ...]


@dataclass(kw_only=True, slots=True)
class Held:
    """Admitted work, also while it ends after an eviction."""

    key: str
    queue: str
    priority: int
    since: float
    usage: Usage
    evicted: bool = False


@dataclass(kw_only=True, slots=True)
class Cycle:
    """What one cycle decided, by the keys of the work.

    Args:
        admitted: with the usage of the chosen flavour.
        evicted: who gives way, why, and to whom.
        preempting: who waits for those that give way, and for how many.
    """

    admitted: dict[str, Usage] = field(default_factory=dict)
    evicted: dict[str, tuple[Reason, str]] = field(default_factory=dict)
    preempting: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Nomination:
    ask: Ask
    usage: Usage
    distance: int
    victims: tuple["_Candidate", ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Candidate:
    held: Held
    reason: Reason
    shared: Node | None
    """The lowest Cohort above both; None in one queue."""
    needs_no_borrowing: bool = False


def heads(asks: Iterable[Ask], preempting: Collection[str]) -> list[Ask]:
    """The first of each queue: who waits for others to give way (since Kueue 0.15, its pull request 7157), then by
    priority and age."""
    first: dict[str, tuple[tuple[bool, int, float], Ask]] = {}
    for ask in asks:
        place = (ask.key not in preempting, -ask.priority, ask.since)
        if ask.queue not in first or place < first[ask.queue][0]:
            first[ask.queue] = (place, ask)
    return [ask for _, ask in first.values()]


def run_cycle(tree: QuotaTree, held: Collection[Held], asks: Sequence[Ask]) -> Cycle:
    """Decide about one Ask for each queue. ``tree`` has the usage of ``held`` and gets that of what is admitted."""
    done = Cycle()
    nominated = [found for ask in asks if (found := _nominate(tree, held, ask)) is not None]
    nominated.sort(key=lambda each: (each.distance, -each.ask.priority, each.ask.since))
    undo: list[tuple[str, Usage, float]] = []

    def use(queue: str, usage: Usage, sign: float) -> None:
        tree.use(queue, usage, sign)
        undo.append((queue, usage, -sign))

    for each in nominated:
        if any(victim.held.key in done.evicted for victim in each.victims):
            continue
        start = len(undo)
        for victim in each.victims:
            use(victim.held.queue, victim.held.usage, -1.0)
        if not tree.fits(each.ask.queue, each.usage):
            while len(undo) > start:
                tree.use(*undo.pop())
            continue
        if each.victims:
            # What comes later in this cycle sees its place as taken.
            use(each.ask.queue, each.usage, 1.0)
            done.evicted |= {victim.held.key: (victim.reason, each.ask.key) for victim in each.victims}
            done.preempting[each.ask.key] = len(each.victims)
        else:
            tree.use(each.ask.queue, each.usage)
            done.admitted[each.ask.key] = each.usage
    while undo:
        tree.use(*undo.pop())
    return done


def _nominate(tree: QuotaTree, held: Collection[Held], ask: Ask) -> _Nomination | None:
    """The flavour with room for which it borrows the least, else the first one where others give way."""
    fitting = [(tree.distance(ask.queue, usage), usage) for usage in ask.ways if tree.fits(ask.queue, usage)]
    if fitting:
        distance, usage = min(fitting, key=lambda each: each[0])
        return _Nomination(ask=ask, usage=usage, distance=distance, victims=())
    for usage in ask.ways:
        if victims := _victims(tree, held, ask, usage):
            for each in victims:
                tree.use(each.held.queue, each.held.usage, -1.0)
            distance = tree.distance(ask.queue, usage)
            for each in victims:
                tree.use(each.held.queue, each.held.usage)
            return _Nomination(ask=ask, usage=usage, distance=distance, victims=tuple(victims))
    return None


def _victims(tree: QuotaTree, held: Collection[Held], ask: Ask, usage: Usage) -> list[_Candidate]:
    """The fewest that make room, found greedily: nobody where all together would not."""
    node = tree.queues[ask.queue]
    if any(amount > node.most(place) for place, amount in usage.items()):
        return []
    short = {place for place, amount in usage.items() if amount > node.available(place)}
    using: dict[str, list[Held]] = {}
    for each in held:
        if any(each.usage.get(place) for place in short):
            using.setdefault(each.queue, []).append(each)
    own = list(_of_own_queue(node, using.get(node.name, []), ask))
    hierarchical, by_priority = _of_cohorts(tree, using, ask, usage, short)
    ordered = [
        each
        for evicted in (True, False)
        for group in (hierarchical, by_priority, own)
        for each in sorted(group, key=lambda one: (one.held.priority, -one.held.since))
        if each.held.evicted is evicted
    ]
    if not ordered:
        return []
    never_borrows = _policy(node, "borrowWithinCohort") == "Never"
    within = all(not node.exceeds(place) for place in short)
    if not (hierarchical or by_priority) or (never_borrows and not within):
        attempts: tuple[bool, ...] = (True,)
    else:
        attempts = (False, True) if never_borrows and not hierarchical else (True, False)
    for borrowing in attempts:
        if found := _fewest(tree, ask, usage, ordered, short, borrowing):
            return found
    return []


def _fewest(
    tree: QuotaTree, ask: Ask, usage: Usage, ordered: Sequence[_Candidate], short: set[Place], borrowing: bool
) -> list[_Candidate]:
    node, taken, fits = tree.queues[ask.queue], list[_Candidate](), False
    if not borrowing and any(amount > node.subtree.get(place, 0.0) for place, amount in usage.items()):
        return []
    for place in short:
        if usage[place] > node.available(place) + sum(each.held.usage.get(place, 0.0) for each in ordered):
            return []
    for each in ordered:
        if not _still_borrows(tree, each, short) or (borrowing and each.needs_no_borrowing):
            continue
        tree.use(each.held.queue, each.held.usage, -1.0)
        taken.append(each)
        if fits := tree.fits(ask.queue, usage, borrowing=borrowing):
            break
    kept = list(taken) if fits else []
    # The last made room; of those before it, some may not have been needed.
    for each in reversed(taken[:-1] if fits else []):
        tree.use(each.held.queue, each.held.usage)
        if tree.fits(ask.queue, usage, borrowing=borrowing):
            kept.remove(each)
        else:
            tree.use(each.held.queue, each.held.usage, -1.0)
    for each in kept if fits else taken:
        tree.use(each.held.queue, each.held.usage)
    return kept


def _still_borrows(tree: QuotaTree, each: _Candidate, short: set[Place]) -> bool:
    """Whether its queue, and each Cohort below the shared one, still holds more than its quota."""
    if each.shared is None:
        return True
    node: Node | None = tree.queues[each.held.queue]
    while node is not None and node is not each.shared:
        if not any(node.exceeds(place) for place in short):
            return False
        node = node.parent
    return True


def _policy(node: Node, name: str) -> str:
    found = node.spec.get("preemption", {}).get(name, "Never")
    return str(found.get("policy", "Never") if isinstance(found, dict) else found)


def _of_own_queue(node: Node, held: Iterable[Held], ask: Ask) -> Iterator[_Candidate]:
    policy = _policy(node, "withinClusterQueue")
    for each in held:
        newer = policy == "LowerOrNewerEqualPriority" and each.priority == ask.priority and each.since > ask.since
        if policy != "Never" and (each.priority < ask.priority or newer):
            yield _Candidate(held=each, reason="InClusterQueue", shared=None)


def _of_cohorts(
    tree: QuotaTree, using: dict[str, list[Held]], ask: Ask, usage: Usage, short: set[Place]
) -> tuple[list[_Candidate], list[_Candidate]]:
    """Those who borrowed what a node above ``ask`` has room for by its quota, and those of a lower priority."""
    hierarchical: list[_Candidate] = []
    by_priority: list[_Candidate] = []
    node = tree.queues[ask.queue]
    reclaims = _policy(node, "reclaimWithinCohort")
    if reclaims == "Never":
        return hierarchical, by_priority
    # Whether a node below each Cohort has, by its own quota, all that is asked for.
    advantages: dict[str, bool] = {}
    left, advantage = dict(usage), False
    for each in (node, *node.above):
        if each is not node:
            advantages[each.name] = advantage
        advantage = advantage or all(not each.exceeds(place, amount) for place, amount in left.items())
        left = {place: max(0.0, amount - each.unused_of_kept(place)) for place, amount in left.items()}
    for name, work in using.items():
        shared = _shared(tree.queues[name], advantages, short) if name != node.name else None
        for one in work if shared else ():
            if shared and (reclaims == "Any" or one.priority < ask.priority):
                found = hierarchical if advantages[shared.name] else by_priority
                found.append(_candidate(node, ask, one, shared, advantages[shared.name]))
    return hierarchical, by_priority


def _shared(node: Node, cohorts: Collection[str], short: set[Place]) -> Node | None:
    """The lowest of ``cohorts`` above ``node``; None where it, or a Cohort between them, does not borrow."""
    while any(node.exceeds(place) for place in short) and node.parent is not None:
        node = node.parent
        if node.name in cohorts:
            return node
    return None


def _candidate(node: Node, ask: Ask, each: Held, shared: Node, advantage: bool) -> _Candidate:
    if advantage:
        return _Candidate(held=each, reason="InCohortReclamation", shared=shared)
    borrowing = node.spec.get("preemption", {}).get("borrowWithinCohort", {})
    most = borrowing.get("maxPriorityThreshold")
    allowed = borrowing.get("policy", "Never") != "Never" and each.priority < ask.priority
    if allowed and (most is None or each.priority <= most):
        return _Candidate(held=each, reason="InCohortReclaimWhileBorrowing", shared=shared)
    return _Candidate(held=each, reason="InCohortReclamation", shared=shared, needs_no_borrowing=True)
