"""What was trained answers as OpenAI's models do: asked by OpenAI's own client, through real engines."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI

from ft_assets import api
from ft_assets.records.submissions import SubmissionStatus, finish
from ft_assets.workers.evals.holdout_rows import ChatRows
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.artifacts import Artifact
from ft_resources.errors import StoreUnavailable
from ft_resources.store import Store
from tests.e2e.project import Project
from tests.fake_base import make_fake_base
from tests.made import add_recipe
from tests.server.chat_world import LINE, TEMPLATE, Line, OwnFleet, Scripted, events_of
from tests.server.conftest import Client, settled, submission_of, until, upload
from tests.workers.serving.served import Served
from tests.workers.serving.world import alone, make_engine, plain

ASKS = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "where is the fox?"}]
GREEDY: dict[str, Any] = {"temperature": 0, "max_tokens": 24}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    made = Served(make_engine(make_fake_base(tmp_path_factory.mktemp("engine") / "base")))
    yield made
    made.close()


@pytest.fixture
def line(project: Project) -> Line:
    return Line(project)


@pytest.fixture
def fleet(line: Line, engine: Served) -> OwnFleet:
    made = OwnFleet(line.artifacts, line.base.digest)
    made.add(engine.url)
    return made


def expected(project: Project, adapter: Artifact, messages: list[dict[str, Any]], tokens: int = 24) -> str:
    """The greedy answer of Transformers and PEFT to the evaluation's prompt."""
    base = project.folder / "base"
    tokenizer = ChatTokenizer.load(base)
    ids = ChatRows(base, tokenizer, TEMPLATE).prompt(messages, "here")
    found, _ = alone(plain(base, adapter.folder(Path("unused"))), ids, tokens)
    return str(tokenizer.tokenizer.decode([each for each in found if each != 2], skip_special_tokens=True))


def test_a_conversation_is_answered_by_the_adapter_in_production(project: Project, line: Line, client: Client) -> None:
    adapter = line.adapter(1)
    line.promote(adapter)
    acme = client(role="viewer")
    found = acme.chat.completions.create(model=LINE, messages=ASKS, **GREEDY)
    choice = found.choices[0]
    assert choice.message.content == expected(project, adapter, ASKS)
    assert (choice.message.role, choice.finish_reason, choice.index) == ("assistant", "length", 0)
    assert (found.object, found.model, found.system_fingerprint) == (
        "chat.completion", LINE, f"fp_{adapter.digest[:16]}",
    )  # fmt: skip
    base = project.folder / "base"
    ids = ChatRows(base, ChatTokenizer.load(base), TEMPLATE).prompt(ASKS, "here")
    assert found.usage.prompt_tokens == len(ids)
    assert (found.usage.completion_tokens, found.usage.total_tokens) == (24, len(ids) + 24)


def test_a_stream_is_the_same_answer_in_parts(line: Line, client: Client) -> None:
    line.promote(line.adapter(1))
    acme = client()
    whole = acme.chat.completions.create(model=LINE, messages=ASKS, **GREEDY)
    asked = {"model": LINE, "messages": ASKS, "stream": True, **GREEDY}
    parts = list(acme.chat.completions.create(**asked, stream_options={"include_usage": True}))
    assert parts[0].choices[0].delta.role == "assistant"
    assert "".join(part.choices[0].delta.content or "" for part in parts[:-1]) == whole.choices[0].message.content
    assert [part.choices[0].finish_reason for part in parts[:-1]] == [None] * (len(parts) - 2) + ["length"]
    assert (parts[-1].choices, parts[-1].usage) == ([], whole.usage)
    assert {part.id for part in parts} == {parts[0].id}
    assert all(part.usage is None for part in parts[:-1])
    assert len(list(acme.chat.completions.create(**asked))) == len(parts) - 1


def test_a_text_is_continued_from_itself_or_its_token_ids(project: Project, line: Line, client: Client) -> None:
    adapter = line.adapter(1)
    line.promote(adapter)
    acme = client()
    base = project.folder / "base"
    tokenizer = ChatTokenizer.load(base).tokenizer
    ids = tokenizer.encode("the quick brown").ids
    found, _ = alone(plain(base, adapter.folder(Path("unused"))), ids, 16)
    text = tokenizer.decode(found, skip_special_tokens=True)
    for prompt in ("the quick brown", ["the quick brown"], ids):
        answer = acme.completions.create(model=LINE, prompt=prompt, temperature=0)
        assert (answer.choices[0].text, answer.choices[0].finish_reason) == (text, "length")
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (len(ids), 16)
    stream = acme.completions.create(model=LINE, prompt=ids, temperature=0, stream=True)
    assert "".join(part.choices[0].text for part in stream) == text


def test_names_mean_production_staging_or_what_ever_stood_there(
    project: Project, line: Line, client: Client, served: Any
) -> None:
    first, second = line.adapter(1), line.adapter(2)
    answers = {adapter.digest: expected(project, adapter, ASKS) for adapter in (first, second)}
    assert len(set(answers.values())) == 2
    acme = client()

    def fingerprint(name: str) -> str:
        found = acme.chat.completions.create(model=name, messages=ASKS, **GREEDY)
        assert found.model == name
        digest = next(each for each in answers if found.system_fingerprint == f"fp_{each[:16]}")
        assert found.choices[0].message.content == answers[digest]
        return digest

    line.promote(first, "staging")
    with pytest.raises(openai.NotFoundError, match=r"no adapter of acme.colours.tiny is in production.*@staging"):
        fingerprint(LINE)
    assert fingerprint(f"{LINE}@staging") == first.digest
    line.promote(first)
    line.promote(second)
    assert fingerprint(LINE) == second.digest
    assert fingerprint(f"{LINE}@staging") == first.digest
    for each in (first, second):
        assert fingerprint(f"{LINE}@{each.digest[:16]}") == each.digest
    line.promote(first, kind="rollback")
    until(lambda: fingerprint(LINE) == first.digest, 10)
    # What was rolled back can still be asked by its digest.
    assert fingerprint(f"{LINE}@{second.digest[:16]}") == second.digest
    assert [model.id for model in acme.models.list()] == [LINE, f"{LINE}@staging", "tiny"]
    shown = acme.models.retrieve(f"{LINE}@{second.digest[:16]}")
    assert (shown.owned_by, shown.model_extra["ft"]["adapter"]) == ("acme", str(second.address))


def test_a_jobs_model_is_asked_by_its_name_until_it_is_deleted(project: Project, line: Line, client: Client) -> None:
    adapter, acme = line.adapter(1), client(role="admin")
    job = settled(acme, acme.fine_tuning.jobs.create(model="tiny", training_file=upload(acme, project.dataset())).id)
    finish(project.store, submission_of(project, job), SubmissionStatus.ACCEPTED, adapter=str(adapter.address))
    name = acme.fine_tuning.jobs.retrieve(job.id).fine_tuned_model
    found = acme.chat.completions.create(model=name, messages=ASKS, **GREEDY)
    assert found.choices[0].message.content == expected(project, adapter, ASKS)
    missing = refusal(client("globex"), name)
    assert missing == refusal(client("globex"), name.replace("globex", "acme"))
    acme.models.delete(name)
    until(lambda: refusal(acme, name) == missing, 10)


def refusal(client: OpenAI, name: str) -> str:
    """What a name of no model is answered with, without the name; "" if there is an answer."""
    try:
        client.chat.completions.create(model=name, messages=ASKS, max_tokens=1)
    except openai.NotFoundError as error:
        return error.response.text.replace(name, "NAME")
    return ""


def test_another_tenants_models_are_answered_as_what_is_not_there(line: Line, client: Client) -> None:
    adapter = line.adapter(1)
    line.promote(adapter)
    line.promote(adapter, "staging")
    acme, globex = client(), client("globex")
    there = [LINE, f"{LINE}@staging", f"{LINE}@{adapter.digest[:16]}"]
    nowhere = [
        "acme.colours.none", "globex.colours.tiny", "globex.colours.tiny@staging", f"{LINE}@{'0' * 16}", f"{LINE}@",
        f"{LINE}@dev", "tiny", "gpt-5", "../acme/colours", "ft:tiny:acme::" + "f" * 24, "globex.colours",
    ]  # fmt: skip
    said = {refusal(globex, name) for name in [*there, *nowhere]}
    assert len(said) == 1
    assert '"code":"not_found"' in said.pop()
    for name in there:
        assert refusal(acme, name) == ""
        with pytest.raises(openai.NotFoundError):
            globex.models.retrieve(name)
    assert [model.id for model in globex.models.list()] == ["tiny"]


def test_a_stop_string_cuts_the_answer_and_ends_the_generation(
    project: Project, line: Line, client: Client, engine: Served
) -> None:
    adapter = line.adapter(1)
    line.promote(adapter)
    acme = client()
    text = expected(project, adapter, ASKS, 100)
    stop = text[20:24]
    before = engine.engine.figures().generation_tokens
    asked = {"model": LINE, "messages": ASKS, "temperature": 0, "max_tokens": 200}
    found = acme.chat.completions.create(**asked, stop=[stop, "never said"])
    assert (found.choices[0].message.content, found.choices[0].finish_reason) == (text[: text.index(stop)], "stop")
    assert found.usage.completion_tokens < 100
    parts = list(acme.chat.completions.create(**asked, stop=stop, stream=True))
    assert "".join(part.choices[0].delta.content or "" for part in parts) == text[: text.index(stop)]
    until(lambda: not engine.engine.figures().running)
    assert engine.engine.figures().generation_tokens - before < 400


def test_log_probabilities_are_those_of_the_model(project: Project, line: Line, client: Client) -> None:
    adapter = line.adapter(1)
    line.promote(adapter)
    base = project.folder / "base"
    tokenizer = ChatTokenizer.load(base)
    ids = ChatRows(base, tokenizer, TEMPLATE).prompt(ASKS, "here")
    numbers, logprobs = alone(plain(base, adapter.folder(Path("unused"))), ids, 24)
    acme = client()
    asked = {"model": LINE, "messages": ASKS, "logprobs": True, "top_logprobs": 3, **GREEDY}
    found = acme.chat.completions.create(**asked).choices[0].logprobs.content
    assert [each.logprob for each in found] == pytest.approx(logprobs, abs=1e-5)
    assert [each.token for each in found] == [tokenizer.tokenizer.decode([number]) for number in numbers]
    assert all(each.top_logprobs[0].token == each.token and len(each.top_logprobs) == 3 for each in found)
    assert all(each.bytes is None or bytes(each.bytes).decode() == each.token for each in found)
    streamed = [
        token
        for part in acme.chat.completions.create(**asked, stream=True)
        for token in (part.choices[0].logprobs.content if part.choices[0].logprobs else [])
    ]
    assert [each.token for each in streamed] == [each.token for each in found]


def test_a_seed_draws_the_same_answer(line: Line, client: Client) -> None:
    line.promote(line.adapter(1))
    acme = client()

    def draw(**settings: Any) -> str:
        found = acme.chat.completions.create(model=LINE, messages=ASKS, max_completion_tokens=16, **settings)
        return str(found.choices[0].message.content)

    assert draw(seed=5) == draw(seed=5, temperature=1, top_p=1) != draw(seed=6)
    assert draw(temperature=0.0) == draw(temperature=0.0)


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_ends_the_generation(line: Line, client: Client, engine: Served, stream: bool) -> None:
    line.promote(line.adapter(1))
    acme = client()
    before = engine.engine.figures().generation_tokens
    body = json.dumps({"model": LINE, "messages": ASKS, "max_tokens": 200, "stream": stream, "temperature": 0})
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {acme.api_key}\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    for _ in range(5):
        with socket.create_connection((acme.base_url.host, acme.base_url.port)) as connection:
            connection.sendall((head + body).encode())
            until(lambda: engine.engine.figures().running)
        until(lambda: not engine.engine.figures().running)
    assert engine.engine.figures().generation_tokens - before < 5 * 200


def test_fifty_clients_at_once_get_their_own_answers(project: Project, line: Line, client: Client) -> None:
    adapter = line.adapter(1)
    line.promote(adapter)
    acme = client()
    questions = [[{"role": "user", "content": f"what is number {number % 10}?"}] for number in range(50)]
    answers = [expected(project, adapter, each, 8) for each in questions[:10]]
    ready = threading.Barrier(50)

    def ask(number: int) -> str:
        ready.wait()
        settings: dict[str, Any] = {"model": LINE, "messages": questions[number], "temperature": 0, "max_tokens": 8}
        if number % 2:
            parts = acme.chat.completions.create(**settings, stream=True)
            return "".join(part.choices[0].delta.content or "" for part in parts)
        return str(acme.chat.completions.create(**settings).choices[0].message.content)

    with ThreadPoolExecutor(50) as pool:
        found = list(pool.map(ask, range(50)))
    assert found == [answers[number % 10] for number in range(50)]


def test_questions_count_as_requests_and_fill_no_audit_log(line: Line, client: Client, access: api.Access) -> None:
    line.promote(line.adapter(1))
    acme = client()
    raw = acme.chat.completions.with_raw_response
    left = [
        int(raw.create(model=LINE, messages=ASKS, max_tokens=1).headers["x-ratelimit-remaining-requests"])
        for _ in range(2)
    ]
    assert left[1] in (left[0] - 1, left[0])
    assert left[0] < 600
    with pytest.raises(openai.NotFoundError):
        acme.chat.completions.create(model="acme.no.line", messages=ASKS)
    assert [each.path for each in api.audit("acme", access=access)] == []
    acme.api_key = "ft-wrong"
    with pytest.raises(openai.AuthenticationError):
        acme.chat.completions.create(model=LINE, messages=ASKS)


class TestServersThatFail:
    """Servers that do what a test says, before or beside the real one."""

    @pytest.fixture
    def scripted(self, fleet: OwnFleet) -> Iterator[list[Scripted]]:
        made: list[Scripted] = []
        yield made
        for each in made:
            each.close()

    def test_another_server_answers_where_one_fails_before_the_first_token(
        self, line: Line, client: Client, fleet: OwnFleet, scripted: list[Scripted]
    ) -> None:
        line.promote(line.adapter(1))
        scripted += [Scripted(status=500), Scripted(status=503), Scripted([], ends=False)]
        fleet.servers = []
        fleet.add("http://127.0.0.1:9", "not there")
        for number, each in enumerate(scripted):
            fleet.add(each.url, f"bad {number}")
        good = Scripted(["fine"])
        scripted.append(good)
        fleet.add(good.url, "good")
        acme = client()
        for stream in (False, True, False, True, False):
            settings: dict[str, Any] = {"model": LINE, "messages": ASKS, "stream": stream}
            answer = acme.chat.completions.create(**settings)
            text = "".join(part.choices[0].delta.content or "" for part in answer) if stream else (
                answer.choices[0].message.content
            )  # fmt: skip
            assert text == "fine"
        # Each was first once.
        assert all(each.asked for each in scripted)

    def test_a_server_cut_off_in_an_answer_is_told_as_an_error_in_the_stream(
        self, line: Line, client: Client, fleet: OwnFleet, scripted: list[Scripted]
    ) -> None:
        line.promote(line.adapter(1))
        scripted.append(Scripted(["half ", "an "], ends=False))
        fleet.servers = []
        fleet.add(scripted[0].url)
        acme = client()
        parts: list[str] = []
        stream = acme.chat.completions.create(model=LINE, messages=ASKS, stream=True)
        with pytest.raises(openai.APIError, match="The server of this model failed") as caught:
            parts.extend(part.choices[0].delta.content or "" for part in stream)
        assert "".join(parts) == "half an "
        assert caught.value.code == "model_unavailable"
        headers = {"authorization": f"Bearer {acme.api_key}"}
        body = {"model": LINE, "messages": ASKS, "stream": True}
        with httpx.stream("POST", f"{acme.base_url}chat/completions", json=body, headers=headers) as answer:
            said = events_of(answer.iter_lines())
        assert said[-1] == {
            "error": {
                "message": "The server of this model failed. Try again.",
                "type": "server_error",
                "param": None,
                "code": "model_unavailable",
            }
        }
        with pytest.raises(openai.InternalServerError) as failed:
            acme.chat.completions.create(model=LINE, messages=ASKS)
        assert (failed.value.status_code, failed.value.code) == (503, "model_unavailable")
        # Where it listens is the operator's.
        assert scripted[0].url.partition("://")[2] not in str(failed.value) + str(said)

    def test_busy_servers_are_a_429_with_the_time_to_wait(
        self, line: Line, client: Client, fleet: OwnFleet, scripted: list[Scripted]
    ) -> None:
        line.promote(line.adapter(1))
        scripted.append(Scripted(status=503))
        fleet.servers = []
        fleet.add("http://127.0.0.1:9", "not there")
        fleet.add(scripted[0].url)
        for _ in range(2):
            with pytest.raises(openai.RateLimitError) as caught:
                client().chat.completions.create(model=LINE, messages=ASKS)
            assert caught.value.response.headers["retry-after"] == "7"

    def test_without_a_server_the_answer_says_how_to_start_one(
        self, line: Line, client: Client, fleet: OwnFleet
    ) -> None:
        line.promote(line.adapter(1))
        fleet.servers = []
        with pytest.raises(openai.InternalServerError, match="make serve") as caught:
            client().chat.completions.create(model=LINE, messages=ASKS)
        assert (caught.value.status_code, caught.value.code) == (503, "no_server")

    def test_what_ends_an_engine_never_reaches_it(
        self, line: Line, client: Client, fleet: OwnFleet, scripted: list[Scripted]
    ) -> None:
        line.promote(line.adapter(1))
        scripted.append(Scripted(["fine"]))
        fleet.servers = []
        fleet.add(scripted[0].url)
        acme = client()
        for extra in ({"prompt_logprobs": 1}, {"echo": True}, {"ignore_eos": True}, {"lora_path": "/etc"}):
            with pytest.raises(openai.BadRequestError):
                acme.chat.completions.create(model=LINE, messages=ASKS, extra_body=extra)
            with pytest.raises(openai.BadRequestError):
                acme.completions.create(model=LINE, prompt="a", extra_body=extra)
        assert scripted[0].asked == []
        acme.chat.completions.create(model=LINE, messages=ASKS, user="me", logprobs=True)
        asked = scripted[0].asked[0]
        assert asked.keys() == {
            "model", "prompt", "max_tokens", "temperature", "top_p", "stop_token_ids", "logprobs", "return_token_ids",
            "return_tokens_as_token_ids", "stream",
        }  # fmt: skip
        assert asked["max_tokens"] == 256 - len(asked["prompt"])


def test_a_store_that_is_away_for_a_while_changes_nothing(
    line: Line, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    line.promote(line.adapter(1))
    acme = client()
    first = acme.chat.completions.create(model=LINE, messages=ASKS, **GREEDY)

    def away(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("it is away", where="store", remedy="Wait.")

    for name in ("get", "entries", "names", "folders", "exists", "read", "download"):
        monkeypatch.setattr(Store, name, away)
    time.sleep(2.1)
    for _ in range(2):
        assert acme.chat.completions.create(model=LINE, messages=ASKS, **GREEDY).choices == first.choices
    with pytest.raises(openai.InternalServerError) as caught:
        acme.chat.completions.create(model=f"{LINE}@staging", messages=ASKS)
    assert caught.value.code == "store_unavailable"
    with pytest.raises(openai.InternalServerError):
        acme.files.list()


def test_an_erased_tenant_asks_no_more_within_seconds(project: Project, line: Line, client: Client) -> None:
    line.promote(line.adapter(1))
    acme = client()
    acme.chat.completions.create(model=LINE, messages=ASKS, max_tokens=1)
    add_recipe(project.store, "tiny.v1")
    api.erase_tenant("acme", reason="left", store=project.store, actor="root")

    def refused() -> bool:
        try:
            acme.chat.completions.create(model=LINE, messages=ASKS, max_tokens=1)
        except openai.AuthenticationError as error:
            return "was erased" in str(error)
        except openai.NotFoundError:
            pass
        return False

    until(refused, 10)
