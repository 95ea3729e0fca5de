"""A rollout's shadow stage: a candidate is asked what production was asked, and no user notices."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import openai
import pytest
import yaml
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from ft_assets.control.rollouts.rollouts import RolloutPlan, append
from ft_assets.control.rollouts.weights import choose
from ft_assets.records.conversations import Conversation, OtherAnswer, read_conversations
from ft_assets.records.outcomes import FAILED_S
from ft_assets.records.shadows import CONVERSATIONS, ShadowPair, read_shadows
from ft_assets.server.answering import Answering, Question
from ft_assets.server.metrics.shadows import ShadowFigures
from ft_assets.server.shadows import AT_ONCE, WAITING, Shadows
from ft_resources.artifacts import Artifact
from ft_resources.serving.errors import Starting
from tests.control.rollouts.made import made_rollout
from tests.e2e.project import Project
from tests.server.chat_world import ASKS, LINE, Line, OwnFleet
from tests.server.chat_world import fleet as fleet
from tests.server.chat_world import line as line
from tests.server.conftest import Client, until
from tests.server.scripted_server import Patience, Scripted
from tests.server.test_traffic import USERS, kept, name

SAID = "It is red."


@pytest.fixture
def engine() -> Iterator[Scripted]:
    made = Scripted(["It is", " red."])
    made.reason = "stop"
    yield made
    made.close()


def two(line: Line, shadow: int = 100) -> tuple[Artifact, Artifact]:
    """An adapter in production, and a candidate to which so many percent of its requests are copied."""
    incumbent, candidate = line.adapter(1), line.adapter(2)
    line.promote(incumbent)
    plan = RolloutPlan(
        steps=[5, 100],
        minimum=1,
        margins={"latency": 0.05, "format": 0.05},
        latency_limit_s=9.0,
        waive_incumbent=False,
        made_by="",
        shadow=shadow,
    )
    record = made_rollout("started", 0)
    changes = {"line": LINE, "candidate": candidate.ref, "incumbent": incumbent.ref, "plan": plan}
    append(line.store, record.model_copy(update={**changes, "at": datetime.now(UTC).isoformat()}))
    return incumbent, candidate


def copies(served: FastAPI) -> dict[str, float]:
    """What became of copies, by Prometheus's figures."""
    found = served.state.figures.registry.collect()
    samples = [each for family in found for each in family.samples if each.name == "ft_shadow_copies_total"]
    return {each.labels["result"]: each.value for each in samples}


def pairs(served: FastAPI, line: Line) -> list[ShadowPair]:
    """All copied requests, as if the server had ended."""
    later = datetime.now(UTC) + timedelta(minutes=2)
    served.state.context.outcomes.shadows.flush(later)
    return list(read_shadows(line.store, LINE, "2020-01-01", later.isoformat()))


def texts(served: FastAPI, line: Line, folder: str) -> list[Conversation]:
    later = datetime.now(UTC) + timedelta(minutes=2)
    outcomes = served.state.context.outcomes
    for log in (outcomes.conversations, outcomes.shadow_conversations):
        log.flush(later)
    return list(read_conversations(line.store, LINE, "2020-01-01", later.isoformat(), folder=folder))


def settings(project: Project, monkeypatch: pytest.MonkeyPatch, **values: Any) -> None:
    """Settings of the line."""
    tenant, _, own_name = LINE.partition(".")
    file = project.folder / "tenants.yaml"
    file.write_text(yaml.safe_dump({"tenants": {tenant: {"lines": {own_name: values}}}}))
    monkeypatch.setenv("FT_TENANTS", str(file))


def test_requests_of_a_share_of_users_are_copied_and_every_user_has_productions_answer(
    line: Line, engine: Scripted, client: Client, served: FastAPI
) -> None:
    incumbent, candidate = two(line, 40)
    engine.texts_of = {name(candidate): ["I cannot", " say what it is."]}
    acme = client()
    said = {}
    for user in [*USERS, *USERS[:20]]:
        answer = acme.chat.completions.create(model=LINE, messages=ASKS, user=user, temperature=0, max_tokens=9)
        assert answer.choices[0].message.content == SAID
        assert answer.system_fingerprint == f"fp_{incumbent.digest[:16]}"
        said[answer.id] = user
    shares = [(str(candidate.address), 40), ("-", 60)]
    chosen = [request for request, user in said.items() if choose(shares, user) != "-"]
    until(lambda: copies(served).get("answered") == len(chosen))
    found = pairs(served, line)
    assert {each.request for each in found} == set(chosen)
    assert 10 < len(chosen) < 40
    first = found[0]
    assert (first.candidate, first.incumbent) == (name(candidate), name(incumbent))
    assert (first.candidate_answer.refused, first.incumbent_answer.refused) == (True, False)
    assert (first.candidate_answer.characters, first.candidate_answer.tokens) == (24, 2)
    assert (first.incumbent_answer.characters, first.incumbent_answer.tokens) == (len(SAID), 2)
    assert 0 < first.candidate_answer.seconds < FAILED_S
    # The candidate was asked the same, and no text of it is kept.
    asked = [each for each in engine.asked if each["model"] == name(candidate)]
    same = [each for each in engine.asked if each["model"] == name(incumbent)]
    assert {**asked[0], "model": ""} == {**same[0], "model": ""}
    objects = [line.store.get(entry.path) for entry in line.store.entries(f"acme/shadows/{LINE}")]
    assert objects
    assert not any(b"cannot" in each or b"fox" in each or b"red" in each for each in objects)
    # Outcomes of users are production's alone.
    assert {each.model for each in kept(served, line)} == {name(incumbent)}


@pytest.mark.parametrize("stream", [False, True])
def test_a_candidate_that_hangs_delays_no_user_and_what_does_not_fit_the_queue_is_dropped(
    stream: bool, line: Line, engine: Scripted, client: Client, served: FastAPI
) -> None:
    _, candidate = two(line)
    engine.hanging = {name(candidate)}
    acme, fits = client(), AT_ONCE + WAITING
    for _ in range(fits + 3):
        said: Any = acme.chat.completions.create(model=LINE, messages=ASKS, stream=stream)
        if stream:
            text = "".join(part.choices[0].delta.content or "" for part in said)
        else:
            text = said.choices[0].message.content
        assert text == SAID
    # Had one of them waited for the candidate, it would wait still.
    until(lambda: [each["model"] for each in engine.asked].count(name(candidate)) == AT_ONCE)
    assert copies(served) == {"dropped": 3.0}
    assert pairs(served, line) == []
    assert len([each for each in kept(served, line) if each.kind == "latency"]) == fits + 3


def test_a_candidate_that_hangs_counts_as_failed_when_its_time_is_up_and_those_that_wait_are_asked(
    line: Line, engine: Scripted, client: Client, served: FastAPI, fleet: OwnFleet
) -> None:
    _, candidate = two(line)
    engine.hanging = {name(candidate)}
    context = served.state.context

    def within(seconds: float) -> AbstractAsyncContextManager[None]:
        nonlocal patience
        patience = patience or Patience()
        engine.on_silence = patience.ends
        return patience(seconds)

    patience: Patience | None = None
    figures = ShadowFigures(CollectorRegistry())
    impatient = Shadows(fleet, context.outcomes.shadows, figures, at_once=1, waiting=5, timeout=within)
    served.state.context = replace(context, shadows=impatient)
    acme = client()
    for _ in range(3):
        acme.chat.completions.create(model=LINE, messages=ASKS)
    until(lambda: [each["model"] for each in engine.asked].count(name(candidate)) == 3)
    until(lambda: len(pairs(served, line)) == 3)
    assert {each.candidate_answer.seconds for each in pairs(served, line)} == {FAILED_S}


@pytest.mark.parametrize("fault", ["failing", "cut", "template"])
def test_a_candidate_that_fails_is_seen_to_fail_and_touches_no_answer(
    fault: str, line: Line, engine: Scripted, client: Client, served: FastAPI
) -> None:
    if fault == "template":
        incumbent = line.adapter(1)
        line.promote(incumbent)
        broken = line.adapter(2, template="{{ raise_exception('no') }}")
        plan = made_rollout("started", 0).plan.model_copy(
            update={"margins": {"latency": 0.05}, "latency_limit_s": 9.0, "shadow": 100}
        )
        record = made_rollout("started", 0)
        changes = {"line": LINE, "candidate": broken.ref, "incumbent": incumbent.ref, "plan": plan}
        append(line.store, record.model_copy(update=changes))
    else:
        incumbent, candidate = two(line)
        if fault == "failing":
            engine.failing = {name(candidate)}
        else:
            engine.cut = {name(candidate)}
    answer = client().chat.completions.create(model=LINE, messages=ASKS)
    assert answer.choices[0].message.content == SAID
    until(lambda: copies(served) == {"failed": 1.0})
    (pair,) = pairs(served, line)
    assert pair.candidate_answer.seconds == FAILED_S
    assert pair.candidate_answer.refused is None
    assert pair.incumbent_answer.seconds < FAILED_S
    assert {(each.model, each.kind) for each in kept(served, line)} == {
        (name(incumbent), "latency"),
        (name(incumbent), "refusal"),
    }


def test_servers_without_room_for_a_copy_say_nothing_of_the_candidate(
    line: Line, engine: Scripted, client: Client, served: FastAPI
) -> None:
    _, candidate = two(line)
    engine.busy = {name(candidate)}
    client().chat.completions.create(model=LINE, messages=ASKS)
    until(lambda: copies(served) == {"busy": 1.0})
    assert pairs(served, line) == []


def test_a_candidate_whose_server_is_not_there_yet_is_not_seen_to_fail(
    line: Line, engine: Scripted, client: Client, served: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, candidate = two(line)
    ask = Answering.ask

    async def absent(self: Answering, question: Question) -> Any:
        if question.model.name == name(candidate):
            raise Starting("its server is starting")
        return await ask(self, question)

    monkeypatch.setattr(Answering, "ask", absent)
    client().chat.completions.create(model=LINE, messages=ASKS)
    until(lambda: copies(served) == {"busy": 1.0})
    assert pairs(served, line) == []


def test_where_production_fails_the_candidate_is_asked_too_so_that_neither_is_favoured(
    line: Line, engine: Scripted, client: Client, served: FastAPI
) -> None:
    incumbent, _ = two(line)
    engine.failing = {name(incumbent)}
    with pytest.raises(openai.APIStatusError):
        client().chat.completions.create(model=LINE, messages=ASKS)
    until(lambda: copies(served) == {"answered": 1.0})
    (pair,) = pairs(served, line)
    assert (pair.incumbent_answer.seconds, pair.candidate_answer.seconds < FAILED_S) == (FAILED_S, True)


def test_nothing_of_a_copy_counts_against_limits_or_is_billed(
    line: Line, engine: Scripted, client: Client, served: FastAPI
) -> None:
    two(line)
    raw = client().chat.completions.with_raw_response
    left = []
    for number in range(1, 6):
        answer = raw.create(model=LINE, messages=ASKS)
        left.append(int(answer.headers["x-ratelimit-remaining-requests"]))
        until(lambda number=number: copies(served).get("answered") == number)
        usage = answer.parse().usage
        assert (usage.completion_tokens, usage.total_tokens) == (2, usage.prompt_tokens + 2)
    assert len(engine.asked) == 10
    # The allowance grows again with time, and a copy would take another one.
    assert all(before - after <= 1 for before, after in pairwise(left))
    counted = [
        each.value
        for family in served.state.figures.registry.collect()
        for each in family.samples
        if each.name == "ft_http_requests_total"
    ]
    assert counted == [5.0]
    for folder in ("usage", "quota", "refunds"):
        assert not list(line.store.entries(f"acme/{folder}"))


def test_text_of_a_copy_is_kept_where_the_line_and_the_request_let_it_and_apart_from_what_users_saw(
    line: Line,
    engine: Scripted,
    client: Client,
    served: FastAPI,
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings(project, monkeypatch, traffic={"keep": True})
    incumbent, candidate = two(line)
    engine.texts_of = {name(candidate): ["It is", " blue."]}
    acme = client()
    stored = acme.chat.completions.create(model=LINE, messages=ASKS, store=True)
    acme.chat.completions.create(model=LINE, messages=ASKS)
    until(lambda: copies(served) == {"answered": 2.0})
    (seen,) = texts(served, line, "conversations")
    (copied,) = texts(served, line, CONVERSATIONS)
    assert (seen.request, seen.model, seen.answer) == (stored.id, name(incumbent), SAID)
    assert (copied.request, copied.model, copied.answer) == (stored.id, name(candidate), "It is blue.")
    assert copied.messages == ASKS
    # A judge compares the two without the log of what users saw.
    assert copied.production == OtherAnswer(model=name(incumbent), answer=SAID)
    assert seen.production is None


@pytest.mark.parametrize("fault", ["failing", "length"])
def test_beside_a_copys_answer_stands_no_answer_of_production_that_was_not_whole(
    fault: str,
    line: Line,
    engine: Scripted,
    client: Client,
    served: FastAPI,
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings(project, monkeypatch, traffic={"keep": True})
    incumbent, _ = two(line)
    if fault == "failing":
        engine.failing = {name(incumbent)}
        with pytest.raises(openai.APIStatusError):
            client().chat.completions.create(model=LINE, messages=ASKS, store=True)
    else:
        engine.reasons_of = {name(incumbent): "length"}
        client().chat.completions.create(model=LINE, messages=ASKS, store=True)
    until(lambda: copies(served) == {"answered": 1.0})
    assert [each.production for each in texts(served, line, CONVERSATIONS)] == [None]


def test_both_answers_are_graded_where_the_line_has_a_format(
    line: Line,
    engine: Scripted,
    client: Client,
    served: FastAPI,
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings(project, monkeypatch, format={"regex": "^It is [a-z]+[.]$"})
    _, candidate = two(line)
    engine.texts_of = {name(candidate): ["Red", ", I think. It is"]}
    client().completions.create(model=LINE, prompt="a colour:", stop=[" It is"])
    until(lambda: copies(served) == {"answered": 1.0})
    (pair,) = pairs(served, line)
    assert (pair.incumbent_answer.valid, pair.candidate_answer.valid) == (True, False)
    # The copy ends at the request's stop strings too.
    assert pair.candidate_answer.characters == len("Red, I think.")


def test_who_asks_for_one_adapter_is_not_copied(line: Line, engine: Scripted, client: Client, served: FastAPI) -> None:
    incumbent, _ = two(line)
    client().chat.completions.create(model=name(incumbent), messages=ASKS)
    assert len(engine.asked) == 1
    assert served.state.context.shadows._lanes == {}


def test_a_server_ends_at_once_while_a_candidate_hangs(
    line: Line, engine: Scripted, client: Client, served: FastAPI
) -> None:
    _, candidate = two(line)
    engine.hanging = {name(candidate)}
    client().chat.completions.create(model=LINE, messages=ASKS)
    until(lambda: len(engine.asked) == 2)
    shadows = served.state.context.shadows
    (task,) = next(iter(shadows._lanes.values())).tasks
    asyncio.run_coroutine_threadsafe(shadows.close(), task.get_loop()).result()
    assert pairs(served, line) == []
