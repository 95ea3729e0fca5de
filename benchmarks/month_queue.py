"""A month through the platform's queues, event by event, by Kueue's rules (``tests/cluster/kueue_cycle.py``).

Only the generated objects say who may have what: ClusterQueues, Cohorts, flavours, and the values of priority classes.
"""

import heapq
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from benchmarks.month_trace import HOUR_S, Submission
from ft_resources.kubernetes.ageing import STEPS, class_for
from ft_resources.kubernetes.kueue import Manifest
from ft_resources.kubernetes.settings import Ageing, KubernetesSettings
from ft_resources.work import Priority
from tests.cluster.kueue_cycle import Ask, Held, heads, run_cycle
from tests.cluster.kueue_quota import QuotaTree, Usage

START_S = 120.0
"""From a pod to the first step, at each start."""
SAVE_S = (30.0, 90.0)
"""Work that gives way saves, and holds its GPUs so long: between these."""
SAVED_EVERY_S = 900.0
NODE_S = 300.0
"""Until there is another node for work whose spot node was lost; it keeps its quota meanwhile."""
_NODE_GPUS = 8


@dataclass(kw_only=True, slots=True)
class Run:
    """What becomes of a submission."""

    asked: Submission
    priority: Priority
    left_s: float
    waits_since: float
    waited_s: float = 0.0
    first_wait_s: float | None = None
    started: float | None = None
    trains_from: float = 0.0
    starts: int = 0
    held_gpu_s: float = 0.0
    attempt_from: float = 0.0
    unpaid_gpu_s: float = 0.0
    gave_way: int = 0
    ended: float | None = None


@dataclass(kw_only=True)
class Month:
    """The state of the queues. ``run`` goes through all events until nothing is left."""

    settings: KubernetesSettings
    objects: Sequence[Manifest]
    runs: dict[str, Run]
    losses: Sequence[float]
    seed: int = 0
    tree: QuotaTree = field(init=False)
    held: dict[str, Held] = field(init=False, default_factory=dict)
    waiting: dict[str, Run] = field(init=False, default_factory=dict)
    parked: set[str] = field(init=False, default_factory=set)
    preempting: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        by_kind: dict[str, list[Manifest]] = {}
        for each in self.objects:
            by_kind.setdefault(each["kind"], []).append(each)
        self.tree = QuotaTree(by_kind["ClusterQueue"], by_kind.get("Cohort", ()))
        self._labels = {each["metadata"]["name"]: each["spec"]["nodeLabels"] for each in by_kind["ResourceFlavor"]}
        self._values = {each["metadata"]["name"]: each["value"] for each in by_kind["WorkloadPriorityClass"]}
        self._ageing = self.settings.ageing or Ageing()
        self._drawn, self._ticket = random.Random(self.seed), count()
        self._events: list[tuple[float, int, str, Any]] = []
        self._ways: dict[tuple[int, bool], tuple[Usage, ...]] = {}

    def run(self) -> None:
        for key, each in self.runs.items():
            self._at(each.asked.at, "arrives", key)
        for at in self.losses:
            self._at(at, "lost", None)
        while self._events:
            now = self._events[0][0]
            while self._events and self._events[0][0] == now:
                _, _, event, what = heapq.heappop(self._events)
                getattr(self, f"_{event}")(now, what)
            self._schedule(now)

    def _at(self, when: float, event: str, what: Any) -> None:
        heapq.heappush(self._events, (when, next(self._ticket), event, what))

    def _arrives(self, now: float, key: str) -> None:
        self.waiting[key] = self.runs[key]
        for step in range(1, STEPS + 1):
            self._at(now + step * self._ageing.every_hours * HOUR_S, "aged", key)

    def _aged(self, now: float, key: str) -> None:
        """Kueue looks again at work whose class changed."""
        self.parked.discard(key)

    def _nearly_done(self, now: float, what: tuple[str, int]) -> None:
        key, start = what
        if self.runs[key].starts == start and key in self.held:
            self.held[key].priority = self._priority(self.runs[key], now, kept=True)

    def _done(self, now: float, what: tuple[str, int]) -> None:
        key, start = what
        run = self.runs[key]
        if run.starts == start and key in self.held and not self.held[key].evicted:
            run.left_s, run.ended = 0.0, now
            self._release(now, key)

    def _saved(self, now: float, key: str) -> None:
        """Work that gave way has saved and is gone: it waits again."""
        run = self.runs[key]
        self._release(now, key)
        run.unpaid_gpu_s += run.asked.gpus * (now - run.attempt_from)
        run.started, run.waits_since = None, now
        self.waiting[key] = run

    def _lost(self, now: float, _: None) -> None:
        """A spot node goes, with what runs on its GPUs, and what that did since it saved last."""
        on_spot = [key for key, each in self.held.items() if self.runs[key].asked.spot and not each.evicted]
        self._drawn.shuffle(on_spot)
        gpus = _NODE_GPUS
        for key in on_spot:
            run = self.runs[key]
            if run.asked.gpus <= gpus:
                gpus -= run.asked.gpus
                trained = max(0.0, now - run.trains_from)
                run.left_s -= max(0.0, trained - self._drawn.random() * SAVED_EVERY_S)
                run.unpaid_gpu_s += run.asked.gpus * (now + NODE_S - run.attempt_from)
                self._trains(now + NODE_S, key)

    def _release(self, now: float, key: str) -> None:
        gone, run = self.held.pop(key), self.runs[key]
        self.tree.use(gone.queue, gone.usage, -1.0)
        run.held_gpu_s += run.asked.gpus * (now - (run.started or 0.0))
        self.parked.clear()

    def _schedule(self, now: float) -> None:
        """Cycles until nobody new is left to look at: who is not admitted is parked until something changes for it. Who
        waits for others to give way stays the first of its queue, and its place is taken in each cycle."""
        asks = {key: self._ask(run, now) for key, run in self.waiting.items() if key not in self.parked}
        seen: set[str] = set()
        while not seen.issuperset(chosen := {ask.key: ask for ask in heads(asks.values(), self.preempting)}):
            cycle = run_cycle(self.tree, self.held.values(), list(chosen.values()))
            for key in cycle.evicted:
                self._gives_way(now, key)
            seen = self.preempting = set(cycle.preempting)
            for key, ask in chosen.items():
                if usage := cycle.admitted.get(key):
                    self._start(now, ask, usage)
                elif key not in seen:
                    self.parked.add(key)
                if key not in seen:
                    del asks[key]

    def _ask(self, run: Run, now: float) -> Ask:
        asked = run.asked
        priority = self._priority(run, now)
        ways = self._usages(asked.gpus, asked.spot)
        return Ask(key=asked.key, queue=f"ft-{asked.tenant}", priority=priority, since=asked.at, ways=ways)

    def _usages(self, gpus: int, spot: bool) -> tuple[Usage, ...]:
        """What a Job of the launcher's uses of each flavour whose labels it asks for."""
        if (gpus, spot) not in self._ways:
            kind = self.settings.spot_nodes if spot else self.settings.on_demand
            (gpu,) = self.settings.gpu_types.values()
            labels = (kind.node_selector | gpu.node_selector).items()
            needs = {
                gpu.resource: float(gpus),
                "cpu": self.settings.cpus_per_gpu * gpus,
                "memory": self.settings.memory_gib_per_gpu * gpus * 2**30,
            }
            self._ways[gpus, spot] = tuple(
                {(name, resource): amount for resource, amount in needs.items()}
                for name, has in self._labels.items()
                if labels <= has.items()
            )
        return self._ways[gpus, spot]

    def _priority(self, run: Run, now: float, *, kept: bool = False) -> int:
        base = self.settings.priority_classes[run.priority]
        runs = run.started is not None
        waited_s = (now if run.started is None else run.started) - run.asked.at
        return self._values[class_for(base, self._ageing, waited_s=waited_s, runs=runs, kept=kept)]

    def _start(self, now: float, ask: Ask, usage: Usage) -> None:
        run = self.waiting.pop(ask.key)
        run.started = now
        run.waited_s += now - run.waits_since
        if run.first_wait_s is None:
            run.first_wait_s = now - run.asked.at
        self.held[ask.key] = Held(
            key=ask.key, queue=ask.queue, priority=self._priority(run, now), since=now, usage=usage
        )
        self._trains(now, ask.key)

    def _trains(self, now: float, key: str) -> None:
        """Its pods start at ``now``; an earlier start's events no longer count."""
        run = self.runs[key]
        run.starts += 1
        run.attempt_from, run.trains_from = now, now + START_S
        kept_after = max(0.0, run.left_s - (1 - self._ageing.keep_from) * run.asked.seconds)
        self._at(run.trains_from + kept_after, "nearly_done", (key, run.starts))
        self._at(run.trains_from + run.left_s, "done", (key, run.starts))

    def _gives_way(self, now: float, key: str) -> None:
        run, held = self.runs[key], self.held[key]
        if held.evicted:
            return
        held.evicted = True
        run.left_s -= max(0.0, now - run.trains_from)
        run.starts += 1
        run.gave_way += 1
        self._at(now + self._drawn.uniform(*SAVE_S), "saved", key)


def month_of(submissions: Iterable[Submission], priorities: Mapping[str, Priority], **more: Any) -> Month:
    """The month of these submissions; ``priorities`` are those of the tiers."""
    runs = {
        each.key: Run(asked=each, priority=priorities[each.tier], left_s=each.seconds, waits_since=each.at)
        for each in submissions
    }
    return Month(runs=runs, **more)
