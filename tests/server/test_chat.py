"""Answers of the chat and completions API are those of the model, whole and in parts, for many at once."""

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import openai
import pytest
from fastapi import FastAPI

from ft_assets import api
from ft_assets.records.outcomes import read_outcomes
from ft_assets.workers.evals.chat_prompts import ChatPrompts
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from tests.e2e.project import Project
from tests.server.chat_world import ASKS, GREEDY, LINE, TEMPLATE, Line, expected
from tests.server.chat_world import engine as engine
from tests.server.chat_world import fleet as fleet
from tests.server.chat_world import line as line
from tests.server.conftest import Client, until
from tests.workers.serving.world import Served, alone, plain


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
    ids = ChatPrompts(base, ChatTokenizer.load(base), TEMPLATE).prompt(ASKS, "here")
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


def test_token_ids_that_no_vocabulary_has_are_refused_and_are_no_failure_of_a_server(
    line: Line, client: Client, served: FastAPI
) -> None:
    line.promote(line.adapter(1))
    for number in (999_999, 2**31, 2**70):
        with pytest.raises(openai.BadRequestError, match="token id") as caught:
            client().completions.create(model=LINE, prompt=[number], max_tokens=1)
        said = str(caught.value.body["message"]) if isinstance(caught.value.body, dict) else ""
        assert (caught.value.param, said.endswith("."), ".." in said) == ("prompt", True, False)
        assert "base. Correct the request." in said or number >= 2**31
    context = served.state.context
    context.outcomes.log.flush(datetime.now(UTC) + timedelta(minutes=2))
    assert list(read_outcomes(line.store, LINE, "2020", "2100")) == []
    assert context.answering._failed_at == {}


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
    ids = ChatPrompts(base, tokenizer, TEMPLATE).prompt(ASKS, "here")
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
