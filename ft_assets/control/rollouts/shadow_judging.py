"""Ask a rollout's judge which of both answers to copied requests is better.

The client, the prompt and the rule of both orders are those of evaluations. Only pairs whose texts may be kept are
asked about: of a line that keeps conversations, and a request that says ``store: true``.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from ft_assets.control.rollouts.look import names_of, verdicts_of
from ft_assets.control.rollouts.rollouts import Rollout
from ft_assets.control.rollouts.weights import is_within
from ft_assets.records.conversations import Conversation, read_conversations
from ft_assets.records.shadow_verdicts import ShadowVerdict, VerdictLog
from ft_assets.records.shadows import CONVERSATIONS
from ft_assets.settings.judge_hosts import JudgeHost, allowed_host
from ft_assets.settings.shadow_judge import ShadowJudge
from ft_assets.workers.evals.preferences.endpoint import GIVE_UP, EndpointJudge
from ft_assets.workers.evals.preferences.judge import FORBIDDEN, UNAVAILABLE, Judge
from ft_assets.workers.evals.preferences.judged_pairs import Contest, Judged, judge_contests
from ft_assets.workers.evals.preferences.marks import Marks, marks_of
from ft_assets.workers.evals.preferences.prompt import ORDERS
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import UserError
from ft_resources.store import Store

WINDOW = timedelta(hours=1)
"""How long a pair may wait to be judged; a tick reads no older conversations."""
PAUSE = timedelta(minutes=5)
"""After a judge was not reached."""
LONGEST_S = 20.0
"""Most that a judgement takes: it is waited for by a sensor's tick, to which Dagster gives a minute."""
_SEED = 17


def pairs_to_judge(store: Store, rollout: Rollout, now: datetime) -> list[Conversation]:
    """Copied requests that the rollout's judge should be asked about now: those first that it was least often asked
    about in vain, of these the oldest.

    They are a sample by the request's id, so that nothing that anybody says decides which. None are left where the day
    has had its number, and for a while after the judge was not reached. The rollout must have a judge. Raises
    CorruptArtifact.
    """
    judge, verdicts = _judge(rollout), verdicts_of(store, rollout, now)
    if verdicts and verdicts[-1].again and verdicts[-1].at > _text(now - PAUSE):
        return []
    asked = sum(each.asked and each.at[:10] == _text(now)[:10] for each in verdicts)
    known = {each.request for each in verdicts if not each.again}
    tries = Counter(each.request for each in verdicts if each.again)
    since = max(rollout.started.at, _text(now - WINDOW))
    found = []
    for each in _pairs(store, rollout, since, now):
        if each.request not in known and is_within(each.model, each.request, judge.share):
            known.add(each.request)
            found.append(each)
    # Endpoints may refuse one text as they refuse a wrong key: it holds up no other.
    found.sort(key=lambda each: tries[each.request])
    return found[: max(0, judge.most_a_day - asked)]


def marks_to_take(store: Store, rollout: Rollout) -> Marks:
    """The marks of both adapters' templates; one that was erased has none. Raises CorruptArtifact."""
    artifacts, found = Artifacts(store), Marks()
    for ref in (rollout.started.candidate, rollout.started.incumbent):
        if (adapter := artifacts.find(Address.parse(ref.address))) is not None:
            found |= marks_of(adapter)
    return found


def judge_pairs(
    rollout: Rollout, hosts: Sequence[JudgeHost], pairs: Sequence[Conversation], log: VerdictLog, marks: Marks
) -> str:
    """Ask about ``pairs`` and write the verdicts; what went wrong, empty where nothing did.

    A pair is asked about again only where the judge was not reached. One that it forbids is left out.

    Args:
        hosts: those that the platform allows to the line's tenant.
        marks: those of ``marks_to_take``.
    """
    name, contests = _judge(rollout).model.name, [_contest(each) for each in pairs]
    heard: list[int] = []
    try:
        judge = _open(rollout, hosts)
        judged = judge_contests(
            name, judge, contests, None, seed=_SEED, report=lambda done, of: heard.append(done), marks=marks
        ).judged
    except UserError as error:
        # Judgements that came beside the one that was refused are paid for.
        again = partial(_made, rollout, win=None, problem=error.what, again=True, asked=bool(heard))
        _write(log, [again(each.request) for each in pairs])
        return _unreached(error.what)
    verdicts = [_verdict(rollout, each) for each in judged]
    _write(log, verdicts)
    if unreached := next((each.problem for each in verdicts if each.again), ""):
        return _unreached(unreached)
    forbidden = sum(each.problem == FORBIDDEN for each in verdicts)
    return f"its judge returned 403 for {forbidden} copied requests, which are skipped" if forbidden else ""


def _unreached(why: str) -> str:
    return f"its judge is unreachable and will be retried: {why}"


def at_once(rollout: Rollout) -> int:
    """How many pairs are asked about together. So few that the client never gives up: each judgement that took too
    long may have to be paid for, and is counted as one."""
    return max(1, min((GIVE_UP - 1) // len(ORDERS), _judge(rollout).model.concurrency // len(ORDERS)))


def _open(rollout: Rollout, hosts: Sequence[JudgeHost]) -> Judge:
    """The rollout's judge, for one call. Raises UserError for a host or key that the platform does not allow (any
    more), and for a missing key."""
    model = _judge(rollout).model
    quick = model.model_copy(update={"timeout_s": min(model.timeout_s, LONGEST_S)})
    # The next tick is its second try.
    return EndpointJudge(quick, allowed_host(model, hosts), seed=_SEED, tries=1, by_text=True)


def _pairs(store: Store, rollout: Rollout, since: str, now: datetime) -> Iterator[Conversation]:
    line, (candidate, incumbent) = rollout.started.line, names_of(rollout)
    for each in read_conversations(store, line, since, _text(now), folder=CONVERSATIONS):
        if each.model == candidate and each.production is not None and each.production.model == incumbent:
            yield each


def _contest(pair: Conversation) -> Contest:
    assert pair.production is not None
    turns = tuple((str(turn["role"]), _said(turn)) for turn in pair.messages)
    return Contest(id=pair.request, conversation=turns, base=pair.production.answer, candidate=pair.answer)


def _said(turn: dict[str, Any]) -> str:
    content = turn.get("content")
    if isinstance(content, str) and "tool_calls" not in turn:
        return content
    return json.dumps({name: value for name, value in turn.items() if name != "role"}, ensure_ascii=False)


def _verdict(rollout: Rollout, judged: Judged) -> ShadowVerdict:
    problems = [] if judged.contest.alike else [judged.problem(order) for order in ORDERS]
    again = UNAVAILABLE in problems
    return _made(
        rollout,
        judged.contest.id,
        win=judged.win,
        problem=UNAVAILABLE if again else next(filter(None, problems), ""),
        again=again,
        asked=any(each != UNAVAILABLE for each in problems),
    )


def _made(
    rollout: Rollout, request: str, *, win: float | None, problem: str, again: bool, asked: bool
) -> ShadowVerdict:
    candidate, incumbent = names_of(rollout)
    judge = _judge(rollout)
    return ShadowVerdict(
        candidate=candidate,
        incumbent=incumbent,
        request=request,
        judge=judge.model.name,
        win=win,
        problem=problem,
        again=again,
        asked=asked,
        cost=judge.pair_cost if asked else 0.0,
        at=_text(datetime.now(UTC)),
    )


def _write(log: VerdictLog, verdicts: Sequence[ShadowVerdict]) -> None:
    """At once: a verdict that is paid for is not asked for again."""
    for each in verdicts:
        log.add(each)
    log.flush(datetime.now(UTC) + timedelta(minutes=1))


def _judge(rollout: Rollout) -> ShadowJudge:
    judge = rollout.started.plan.judge
    assert judge is not None
    return judge


def _text(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")
