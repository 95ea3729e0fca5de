"""Servers that fail while a model is asked, and requests that never reach one."""

from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from ft_assets.workers.evals.chat_prompts import ChatPrompts
from tests.server.chat_world import ASKS, LINE, Line, OwnFleet
from tests.server.chat_world import line as line
from tests.server.conftest import Client
from tests.server.scripted_server import Scripted, events_of


@pytest.fixture
def fleet(line: Line) -> OwnFleet:
    """No server at first."""
    return OwnFleet(line.artifacts, line.base.digest)


@pytest.fixture
def scripted() -> Iterator[list[Scripted]]:
    made: list[Scripted] = []
    yield made
    for each in made:
        each.close()


def test_another_server_answers_where_one_fails_before_the_first_token(
    line: Line, client: Client, fleet: OwnFleet, scripted: list[Scripted]
) -> None:
    line.promote(line.adapter(1))
    scripted += [Scripted(status=500), Scripted(status=503), Scripted([], ends=False)]
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
    assert all(each.asked for each in scripted)


def test_a_server_cut_off_in_an_answer_is_told_as_an_error_in_the_stream(
    line: Line, client: Client, fleet: OwnFleet, scripted: list[Scripted]
) -> None:
    line.promote(line.adapter(1))
    scripted.append(Scripted(["half ", "an "], ends=False))
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
    line: Line, client: Client, fleet: OwnFleet, scripted: list[Scripted]
) -> None:
    line.promote(line.adapter(1))
    scripted.append(Scripted(status=503))
    fleet.add("http://127.0.0.1:9", "not there")
    fleet.add(scripted[0].url)
    for _ in range(2):
        with pytest.raises(openai.RateLimitError) as caught:
            client().chat.completions.create(model=LINE, messages=ASKS)
        assert caught.value.response.headers["retry-after"] == "7"


@pytest.mark.parametrize(
    ("starts", "code", "said"), [(False, "no_server", "FT_SERVERS"), (True, "model_starting", "minute")]
)
def test_without_a_server_the_answer_says_when_there_will_be_one_or_who_can_start_one(
    starts: bool, code: str, said: str, line: Line, client: Client, fleet: OwnFleet
) -> None:
    line.promote(line.adapter(1))
    fleet.starts = starts
    with pytest.raises(openai.InternalServerError, match=said) as caught:
        client().chat.completions.create(model=LINE, messages=ASKS)
    assert (caught.value.status_code, caught.value.code) == (503, code)
    assert caught.value.response.headers["retry-after"] == "10"


def test_a_model_that_is_offered_to_be_fine_tuned_says_that_it_does_not_answer(line: Line, client: Client) -> None:
    acme = client()
    assert "tiny" in {each.id for each in acme.models.list()}
    with pytest.raises(openai.NotFoundError, match="'tiny' is a base for fine-tuning and does not answer requests"):
        acme.chat.completions.create(model="tiny", messages=ASKS)


def test_what_ends_an_engine_never_reaches_it(
    line: Line, client: Client, fleet: OwnFleet, scripted: list[Scripted]
) -> None:
    line.promote(line.adapter(1))
    scripted.append(Scripted(["fine"]))
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


def test_a_prompt_far_longer_than_the_context_is_refused_by_its_beginning(
    line: Line, client: Client, fleet: OwnFleet, scripted: list[Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    line.promote(line.adapter(1))
    scripted.append(Scripted(["fine"]))
    fleet.add(scripted[0].url)
    acme = client()
    # From the first answer on the server's context is known.
    acme.chat.completions.create(model=LINE, messages=ASKS)
    rendered: list[int] = []
    render = ChatPrompts.prompt

    def counted(self: ChatPrompts, messages: Any, *more: Any) -> list[int]:
        rendered.append(len(messages))
        return render(self, messages, *more)

    monkeypatch.setattr(ChatPrompts, "prompt", counted)
    with pytest.raises(openai.BadRequestError, match="the context holds 256 tokens") as caught:
        acme.chat.completions.create(model=LINE, messages=[{"role": "user", "content": "a b " * 250_000}])
    assert (caught.value.code, caught.value.param, rendered) == ("context_length_exceeded", "messages", [])
    with pytest.raises(openai.BadRequestError, match="the prompt has") as caught:
        acme.chat.completions.create(model=LINE, messages=[{"role": "user", "content": "a b " * 250}])
    assert (caught.value.code, rendered) == ("context_length_exceeded", [1])
