"""A rollout's candidate answers its share of a line's traffic, and what is known of answers is kept for the rollout."""

import asyncio
import json
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import openai
import pytest
from fastapi import FastAPI
from starlette.types import Message

from ft_assets.control.rollouts.evidence import good
from ft_assets.control.rollouts.rollouts import RolloutPlan, RolloutRecord, append, read_rollouts
from ft_assets.control.rollouts.weights import choose
from ft_assets.records.outcomes import FAILED_S, Outcome, read_outcomes
from ft_resources.artifacts import Artifact
from tests.e2e.project import Project
from tests.server.chat_world import ASKS, LINE, Line, OwnFleet
from tests.server.chat_world import fleet as fleet
from tests.server.chat_world import line as line
from tests.server.conftest import Asker, Client
from tests.server.scripted_server import Scripted
from tests.server.test_bodies import Short

USERS = [f"user-{number}" for number in range(40)]


@pytest.fixture
def engine() -> Iterator[Scripted]:
    made = Scripted(["I cannot help", " with that."])
    yield made
    made.close()


def begin(line: Line, incumbent: Artifact, candidate: Artifact, weight: int) -> None:
    """Open a rollout at ``weight`` percent, without the checks of a promotion."""
    state = read_rollouts(line.store, LINE)
    drawn = uuid.uuid4().hex
    record = RolloutRecord(
        id=drawn,
        line=LINE,
        seq=state.length + 1,
        kind="started",
        rollout=drawn,
        candidate=candidate.ref,
        incumbent=incumbent.ref,
        plan=RolloutPlan(
            steps=[weight, 100],
            minimum=1,
            margins={"thumbs": 0.05},
            latency_limit_s=None,
            waive_incumbent=False,
            made_by="",
        ),
        weight=weight,
        evidence=[],
        findings=[],
        actor="ann",
        reason="try it",
        at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        previous=state.head,
    )
    append(line.store, record)


def two(line: Line, weight: int) -> tuple[Artifact, Artifact]:
    """An adapter in production and a candidate with ``weight`` percent of its traffic."""
    incumbent, candidate = line.adapter(1), line.adapter(2)
    line.promote(incumbent)
    begin(line, incumbent, candidate, weight)
    return incumbent, candidate


def name(adapter: Artifact) -> str:
    return f"{LINE}@{adapter.digest[:16]}"


def kept(served: FastAPI, line: Line) -> list[Outcome]:
    """All outcomes of the line, as if the server had ended."""
    later = datetime.now(UTC) + timedelta(minutes=2)
    served.state.context.outcomes.log.flush(later)
    return list(read_outcomes(line.store, LINE, "2020-01-01", later.isoformat()))


def test_users_are_divided_by_the_weight_and_each_stays_with_an_adapter(
    line: Line, engine: Scripted, client: Client
) -> None:
    incumbent, candidate = two(line, 50)
    acme = client()
    for _ in range(2):
        for user in USERS:
            acme.chat.completions.create(model=LINE, messages=ASKS, user=user)
    asked = [each["model"] for each in engine.asked]
    assert asked[: len(USERS)] == asked[len(USERS) :]
    assert set(asked) == {name(incumbent), name(candidate)}
    assert 10 <= asked[: len(USERS)].count(name(candidate)) <= 30


def test_who_names_no_user_is_divided_too_and_who_names_an_adapter_gets_that_one(
    line: Line, engine: Scripted, client: Client
) -> None:
    incumbent, candidate = two(line, 50)
    acme = client()
    for _ in range(40):
        acme.chat.completions.create(model=LINE, messages=ASKS)
    assert {each["model"] for each in engine.asked} == {name(incumbent), name(candidate)}
    engine.asked.clear()
    for user in USERS[:10]:
        acme.chat.completions.create(model=name(incumbent), messages=ASKS, user=user)
    assert {each["model"] for each in engine.asked} == {name(incumbent)}


def test_a_candidate_that_was_deleted_has_no_traffic(line: Line, engine: Scripted, client: Client, served: Any) -> None:
    incumbent, candidate = two(line, 99)
    line.store.delete(f"{candidate.address}/manifest.json")
    acme = client()
    for user in USERS[:10]:
        acme.chat.completions.create(model=LINE, messages=ASKS, user=user)
    assert {each["model"] for each in engine.asked} == {name(incumbent)}


def test_time_and_refusals_of_a_lines_traffic_are_kept_and_no_text(line: Line, client: Client, served: FastAPI) -> None:
    incumbent, candidate = two(line, 50)
    acme = client()
    said = [acme.chat.completions.create(model=LINE, messages=ASKS, user=user) for user in USERS]
    stream = acme.chat.completions.create(model=LINE, messages=ASKS, stream=True)
    (streamed,) = {part.id for part in stream}
    acme.chat.completions.create(model=name(incumbent), messages=ASKS)
    found = kept(served, line)
    assert {each.request for each in found} == {each.id for each in said} | {streamed}
    latency = [each for each in found if each.kind == "latency"]
    assert len(latency) == len(USERS) + 1
    assert all(0 < each.value < FAILED_S for each in latency)
    assert {each.model for each in latency} == {name(incumbent), name(candidate)}
    assert [each.value for each in found if each.kind == "refusal"] == [1.0] * (len(USERS) + 1)
    objects = [line.store.get(entry.path) for entry in line.store.entries(f"acme/outcomes/{LINE}")]
    assert not any(b"cannot help" in each or b"fox" in each for each in objects)


def test_a_thumb_counts_for_the_adapter_that_answered_and_the_first_one_counts(
    line: Line, client: Client, asker: Asker, served: FastAPI
) -> None:
    two(line, 50)
    acme = client(role="viewer")
    feedback = asker(text=acme.api_key)
    expected = {}
    for number, user in enumerate(USERS[:8]):
        answer = acme.chat.completions.create(model=LINE, messages=ASKS, user=user)
        digest = answer.system_fingerprint.removeprefix("fp_")
        thumb = "up" if number % 2 else "down"
        told = feedback.post("/ft/feedback", json={"id": answer.id, "model": LINE, "thumb": thumb})
        assert (told.status_code, told.json()["model"]) == (200, f"{LINE}@{digest}")
        expected[answer.id] = (f"{LINE}@{digest}", float(number % 2))
    feedback.post("/ft/feedback", json={"id": answer.id, "model": LINE, "thumb": "down"})
    thumbs = [each for each in kept(served, line) if each.kind == "thumbs"]
    assert {each.request: (each.model, each.value) for each in thumbs} == expected


def test_a_judges_score_is_an_outcome_beside_a_users_thumb(
    line: Line, client: Client, asker: Asker, served: FastAPI
) -> None:
    two(line, 50)
    acme = client()
    answer = acme.chat.completions.create(model=LINE, messages=ASKS)
    for said in ({"score": 0.25}, {"thumb": "up"}, {"score": 1.0}):
        body = {"id": answer.id, "model": LINE, **said}
        assert asker(text=acme.api_key).post("/ft/feedback", json=body).status_code == 200
    said_of = {each.kind: each.value for each in kept(served, line) if each.kind in ("judge", "thumbs")}
    assert said_of == {"judge": 0.25, "thumbs": 1.0}


WRONG: list[tuple[dict[str, Any], int, str]] = [
    ({"id": "chatcmpl-1", "model": LINE, "thumb": "up"}, 404, "there is no answer 'chatcmpl-1'"),
    ({"id": "x", "model": "other.colours.tiny", "thumb": "up"}, 404, "there is no model 'other.colours.tiny'"),
    ({"id": "x", "model": f"{LINE}@staging", "thumb": "up"}, 400, "is a single adapter"),
    ({"id": "x", "model": LINE, "thumb": "sideways"}, 400, "thumb"),
    ({"id": "x", "model": LINE, "thumb": "up", "text": "nice"}, 400, "text"),
    ({"model": LINE, "thumb": "up"}, 400, "id"),
    ({"id": "x", "model": LINE}, 400, "either thumb or score"),
    ({"id": "x", "model": LINE, "thumb": "up", "score": 1}, 400, "either thumb or score"),
    ({"id": "x", "model": LINE, "score": 1.5}, 400, "score"),
]


def test_wrong_feedback_is_told_and_kept_nowhere(line: Line, asker: Asker, served: FastAPI) -> None:
    line.promote(line.adapter(1))
    acme = asker()
    for body, status, words in WRONG:
        answer = acme.post("/ft/feedback", json=body)
        assert (answer.status_code, words in str(answer.json()["error"])) == (status, True), (body, answer.text)
    assert kept(served, line) == []


def test_another_tenant_gives_no_feedback_on_a_line(line: Line, client: Client, asker: Asker, served: FastAPI) -> None:
    line.promote(line.adapter(1))
    answer = client().chat.completions.create(model=LINE, messages=ASKS)
    with pytest.raises(openai.NotFoundError):
        client("other").chat.completions.create(model=LINE, messages=ASKS)
    body = {"id": answer.id, "model": LINE, "thumb": "down"}
    assert asker("other").post("/ft/feedback", json=body).status_code == 404
    assert [each.kind for each in kept(served, line) if each.kind == "thumbs"] == []


@pytest.mark.parametrize("stream", [False, True])
def test_production_answers_in_place_of_a_candidate_that_fails_and_only_the_candidate_has_an_outcome_of_it(
    stream: bool, line: Line, engine: Scripted, client: Client, served: FastAPI
) -> None:
    incumbent, candidate = two(line, 99)
    engine.failing = {name(candidate)}
    said: Any = client().chat.completions.create(model=LINE, messages=ASKS, user=USERS[0], stream=stream)
    fingerprint = [part.system_fingerprint for part in said][-1] if stream else said.system_fingerprint
    assert fingerprint == f"fp_{incumbent.digest[:16]}"
    assert [each["model"] for each in engine.asked] == [name(candidate), name(incumbent)]
    (found,) = kept(served, line)
    assert (found.model, found.kind, found.value) == (name(candidate), "latency", FAILED_S)
    assert good(found, latency_limit_s=600.0) == 0.0


def test_a_failure_of_production_counts_as_one_of_production_and_is_told(
    line: Line, engine: Scripted, client: Client, served: FastAPI
) -> None:
    incumbent, candidate = two(line, 1)
    engine.failing = {name(incumbent)}
    user = next(each for each in USERS if choose([(str(candidate.address), 1), ("-", 99)], each) == "-")
    with pytest.raises(openai.APIStatusError):
        client().chat.completions.create(model=LINE, messages=ASKS, user=user)
    # A candidate is no reserve for production.
    assert {each["model"] for each in engine.asked} == {name(incumbent)}
    assert {(each.model, each.value) for each in kept(served, line)} == {(name(incumbent), FAILED_S)}


def test_an_answer_that_breaks_off_counts_as_a_failure_of_its_adapter(
    line: Line, engine: Scripted, client: Client, served: FastAPI
) -> None:
    _, candidate = two(line, 99)
    engine.ends = False
    with pytest.raises(openai.APIError):
        list(client().chat.completions.create(model=LINE, messages=ASKS, user=USERS[0], stream=True))
    (found,) = kept(served, line)
    assert (found.model, found.value) == (name(candidate), FAILED_S)


def test_servers_that_are_not_there_yet_are_no_outcome(
    line: Line, client: Client, fleet: OwnFleet, served: FastAPI
) -> None:
    two(line, 99)
    fleet.servers.clear()
    for starts in (True, False):
        fleet.starts = starts
        with pytest.raises(openai.APIStatusError):
            client().chat.completions.create(model=LINE, messages=ASKS, user=USERS[0])
    assert kept(served, line) == []


@pytest.mark.parametrize("told", [0, 1])
def test_a_stream_whose_reader_goes_away_is_no_outcome(
    told: int, line: Line, engine: Scripted, client: Client, served: FastAPI
) -> None:
    """Before its first piece, or after one."""
    two(line, 99)
    silent = threading.Event()
    engine.silent_at, engine.on_silence = told, silent.set
    sent = json.dumps({"model": LINE, "messages": ASKS, "stream": True, "user": USERS[0]}).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {client().api_key}"}

    class Leaving(Short):
        """Goes away once the server of models says nothing more."""

        async def _receive(self) -> Message:
            if not self.read:
                return await super()._receive()
            await asyncio.to_thread(silent.wait)
            return {"type": "http.disconnect"}

    async def ask() -> None:
        found = await Leaving("POST", "/v1/chat/completions", headers, sent).of(served)
        assert (found.status, found.said.count(b"data: ") > 0) == ((200, True) if told else (499, False))
        await served.state.context.answering.close()

    asyncio.run(ask())
    assert kept(served, line) == []


def test_servers_that_are_busy_are_no_outcome(line: Line, engine: Scripted, client: Client, served: FastAPI) -> None:
    two(line, 99)
    engine.status = 503
    with pytest.raises(openai.APIStatusError):
        client().chat.completions.create(model=LINE, messages=ASKS, user=USERS[0])
    assert kept(served, line) == []


@pytest.mark.parametrize(
    ("wanted", "texts", "valid", "stream"),
    [
        ("{regex: '^It is [a-z]+[.]$'}", ["It is ", "red."], 1.0, True),
        ("{regex: '^It is [a-z]+[.]$'}", ["It is ", "red"], 0.0, False),
        ("{json_schema: {type: object, required: [colour]}}", ['{"colour": ', '"red"}'], 1.0, False),
        ("{json_schema: {type: object, required: [colour]}}", ["It is red."], 0.0, True),
    ],
)
def test_each_answer_of_a_line_with_a_format_is_graded_and_nothing_of_it_is_kept(
    stream: bool,
    wanted: str,
    texts: list[str],
    valid: float,
    line: Line,
    engine: Scripted,
    client: Client,
    served: FastAPI,
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = project.folder / "tenants.yaml"
    file.write_text(f"tenants: {{acme: {{lines: {{colours.tiny: {{format: {wanted}}}}}}}}}\n")
    monkeypatch.setenv("FT_TENANTS", str(file))
    engine.texts = texts
    incumbent, candidate = two(line, 99)
    said: Any = client().chat.completions.create(model=LINE, messages=ASKS, user=USERS[0], stream=stream)
    if stream:
        list(said)
    found = {each.kind: each for each in kept(served, line)}
    assert found.keys() == {"latency", "refusal", "format"}
    assert (found["format"].model, found["format"].value) == (name(candidate), valid)
    objects = [line.store.get(entry.path) for entry in line.store.entries(f"acme/outcomes/{LINE}")]
    assert not any(b"red" in each for each in objects)
    # What the request itself broke off has no format, and that is no fault of the adapter's.
    said = client().chat.completions.create(model=LINE, messages=ASKS, user=USERS[0], stream=stream, max_tokens=1)
    if stream:
        list(said)
    assert [each.kind for each in kept(served, line)].count("format") == 1
    # Who asks for one adapter is no traffic.
    before = len(kept(served, line))
    client().chat.completions.create(model=name(incumbent), messages=ASKS)
    assert len(kept(served, line)) == before
