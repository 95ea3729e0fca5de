"""Every wrong question to a model has its error object, and none reaches a server."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.e2e.project import Project
from tests.server.chat_world import LINE, Line, OwnFleet
from tests.server.conftest import Asker, Client
from tests.server.scripted_server import Scripted
from tests.server.test_wrong_requests import error_of

JSON = {"content-type": "application/json"}
USER = {"role": "user", "content": "hi"}
CHATS: list[tuple[dict[str, Any], int, str | None, str, str]] = [
    ({"model": None}, 400, "model", "invalid_value", "must be a text."),
    ({"model": ""}, 400, "model", "invalid_value", "must not be empty"),
    ({"model": "acme.colours.none"}, 404, None, "not_found", "there is no model 'acme.colours.none'"),
    ({"messages": []}, 400, "messages", "invalid_value", "must not be empty"),
    ({"messages": "hi"}, 400, "messages", "invalid_value", "must be a list."),
    ({"messages": [{"role": "bot", "content": "a"}]}, 400, "messages.0.role", "invalid_value", "'system'"),
    ({"messages": [{"role": "user"}]}, 400, "messages[0].content", "invalid_value", "missing"),
    ({"messages": [{"role": "user", "content": " "}]}, 400, "messages[0].content", "invalid_value", "empty"),
    ({"messages": [USER, {"role": "developer", "content": "a"}]}, 400, "messages[1].role", "invalid_value",
     "only be the first turn"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]}, 400,
     "messages[0].content[0]", "invalid_value", "'image_url' cannot be used"),
    ({"messages": [{**USER, "weight": 1}]}, 400, "messages.0.weight", "unknown_parameter", "leave it out"),
    ({"messages": [{**USER, "tool_calls": [{"id": "a"}]}]}, 400, "messages[0].tool_calls", "invalid_value",
     "only the assistant"),
    ({"max_tokens": 0}, 400, "max_tokens", "invalid_value", "must be at least 1."),
    ({"max_tokens": 5, "max_completion_tokens": 6}, 400, None, "invalid_value", "differ"),
    ({"max_tokens": 250}, 400, "messages", "context_length_exceeded", "the context holds 256 tokens"),
    ({"messages": [{"role": "user", "content": "hello " * 200}]}, 400, "messages", "context_length_exceeded",
     "256 tokens"),
    ({"temperature": 2.1}, 400, "temperature", "invalid_value", "must be at most 2.0"),
    ({"temperature": "hot"}, 400, "temperature", "invalid_value", "must be a number."),
    ({"top_p": 0}, 400, "top_p", "invalid_value", "must be more than 0"),
    ({"seed": -1}, 400, "seed", "invalid_value", "must be at least 0."),
    ({"n": 2}, 400, "n", "invalid_value", "not supported here: leave it out, or send 1."),
    ({"stop": ""}, 400, "stop", "invalid_value", "must not be empty"),
    ({"stop": ["a", "b", "c", "d", "e"]}, 400, "stop", "invalid_value", "at most 4 items"),
    ({"presence_penalty": 0.5}, 400, "presence_penalty", "invalid_value", "or send 0."),
    ({"frequency_penalty": -1}, 400, "frequency_penalty", "invalid_value", "or send 0."),
    ({"logit_bias": {"5": 1}}, 400, "logit_bias", "invalid_value", "or send {}."),
    ({"tools": [{"type": "function"}]}, 400, "tools", "invalid_value", "or send []."),
    ({"response_format": {"type": "json_object"}}, 400, "response_format", "invalid_value",
     'or send {"type":"text"}.'),
    ({"top_logprobs": 3}, 400, None, "invalid_value", "top_logprobs needs logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, 400, "top_logprobs", "invalid_value", "must be at most 20."),
    ({"prompt_logprobs": 1}, 400, "prompt_logprobs", "unknown_parameter", "leave it out"),
    ({"stream_options": {"include_all": True}}, 400, "stream_options.include_all", "unknown_parameter", "leave it out"),
    ({"messages": [{**USER, "content": 5}]}, 400, "messages.0.content", "invalid_value", "must be a text or a list."),
    ({"messages": [USER, {"role": "assistant", "content": "a", "refusal": "no"}]}, 400, "messages.1.refusal",
     "invalid_value", "or send null."),
    ({"prediction": {"type": "content", "content": "a"}}, 400, "prediction", "invalid_value", "or send null."),
    ({"functions": [{"name": "a"}]}, 400, "functions", "invalid_value", "or send []."),
    ({"tool_choice": "required"}, 400, "tool_choice", "invalid_value", 'or send "none".'),
    ({"reasoning_effort": "high"}, 400, "reasoning_effort", "invalid_value", "or send null."),
    ({"verbosity": "low"}, 400, "verbosity", "invalid_value", 'or send "medium".'),
    ({"modalities": ["audio"]}, 400, "modalities", "invalid_value", 'or send ["text"].'),
]  # fmt: skip
TEXTS: list[tuple[dict[str, Any], int, str | None, str, str]] = [
    ({"prompt": ""}, 400, "prompt", "invalid_value", "empty"),
    ({"prompt": ["a", "b"]}, 400, "prompt", "invalid_value", "must be one text"),
    ({"echo": True}, 400, "echo", "invalid_value", "or send false."),
    ({"logprobs": 1}, 400, "logprobs", "invalid_value", "or send null."),
    ({"suffix": "a"}, 400, "suffix", "invalid_value", 'or send "".'),
    ({"best_of": 2}, 400, "best_of", "invalid_value", "or send 1."),
    ({"prompt": [7] * 250}, 400, "prompt", "context_length_exceeded", "256 tokens"),
    ({"messages": [USER]}, 400, "messages", "unknown_parameter", "leave it out"),
    *(
        ({"prompt": each}, 400, "prompt", "invalid_value", "token ids of one")
        for each in ([2**62], [-1], [1.5], [True], [[5], [6]], [], None)
    ),
]
NEUTRAL = {
    "n": 1, "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}, "user": "u", "stop": None, "seed": None,
    "stream": False, "stream_options": {"include_obfuscation": True}, "temperature": None, "top_p": 1,
    "metadata": {"team": "paint"}, "service_tier": "auto", "safety_identifier": "a", "prompt_cache_key": "b",
    "prompt_cache_retention": "24h",
}  # fmt: skip
NEUTRAL_CHAT = {
    **NEUTRAL, "tools": [], "tool_choice": "none", "response_format": {"type": "text"}, "store": False,
    "logprobs": False, "top_logprobs": 0, "modalities": ["text"], "parallel_tool_calls": True, "functions": [],
    "function_call": "auto", "prediction": None, "audio": None, "verbosity": "medium", "reasoning_effort": None,
    "web_search_options": None, "moderation": None,
}  # fmt: skip

EMPTY = {
    "content": None, "refusal": None, "annotations": [], "audio": None, "function_call": None, "tool_calls": [],
    "reasoning_content": "so", "name": None, "tool_call_id": None,
}  # fmt: skip


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    made = Scripted(["fine"])
    yield made
    made.close()


@pytest.fixture
def fleet(project: Project, scripted: Scripted) -> OwnFleet:
    line = Line(project)
    line.promote(line.adapter(1))
    made = OwnFleet(line.artifacts, line.base.digest)
    made.add(scripted.url)
    return made


@pytest.fixture
def http(asker: Asker) -> httpx.Client:
    return asker()


def test_a_wrong_question_is_refused_by_its_parameter(http: httpx.Client, scripted: Scripted) -> None:
    chat, text = {"model": LINE, "messages": [USER]}, {"model": LINE, "prompt": "a"}
    for path, asked, table in (("chat/completions", chat, CHATS), ("completions", text, TEXTS)):
        for stream in (False, True):
            for changes, *expected, message in table:
                *found, said = error_of(http.post(path, json={**asked, **changes, "stream": stream}))
                if expected[1] is None:
                    found[1] = None
                assert (found, message in said) == (expected, True), (changes, found, said)
                assert said.endswith(".") != said.endswith(".."), said
    assert scripted.asked == []


def test_settings_that_change_nothing_are_taken(http: httpx.Client, scripted: Scripted) -> None:
    chat = http.post("chat/completions", json={"model": LINE, "messages": [USER], **NEUTRAL_CHAT})
    assert chat.json()["choices"][0]["message"]["content"] == "fine"
    text = http.post(
        "completions", json={"model": LINE, "prompt": "a", **NEUTRAL, "echo": False, "best_of": 1, "suffix": ""}
    )
    assert text.json()["choices"][0]["text"] == "fine"
    assert [each["temperature"] for each in scripted.asked] == [1.0, 1.0]


def test_an_answer_is_sent_back_as_it_came(http: httpx.Client, client: Client, scripted: Scripted) -> None:
    """Clients append it to the conversation: as JSON, as an object of OpenAI's client, and with all that one may be."""
    acme = client()
    for texts in (["fine"], [""], [" "]):
        scripted.texts = texts
        asked = {"model": LINE, "messages": [USER]}
        raw = http.post("chat/completions", json=asked).json()["choices"][0]["message"]
        said = acme.chat.completions.create(**asked).choices[0].message
        stream = list(acme.chat.completions.create(**asked, stream=True))
        parts = [part.choices[0].delta for part in stream]
        joined = {**parts[0].to_dict(), "content": "".join(part.content or "" for part in parts)}
        for each in (raw, said, said.model_dump(), said.to_dict(), joined, {**raw, **EMPTY}, {"role": "assistant"}):
            again = acme.chat.completions.create(model=LINE, messages=[USER, each, USER])
            assert again.choices[0].message.content == texts[0]
    acme.completions.create(model=LINE, prompt=acme.completions.create(model=LINE, prompt="a").choices[0].text or "a")


def test_no_key_and_no_json_have_their_errors(http: httpx.Client) -> None:
    assert error_of(http.post("chat/completions", content=b"{"))[:3] == (400, None, "invalid_value")
    assert error_of(http.get("chat/completions"))[:3] == (405, None, "method_not_allowed")
    asked = {"model": LINE, "messages": [USER]}
    assert error_of(http.post("completions", content=b'{"prompt": "\\ud800"}', headers=JSON))[3].startswith(
        "The body is"
    )
    for kind in ({}, {"content-type": "text/plain"}, {"content-type": "application/x-www-form-urlencoded"}):
        for sent in (b'{"model": "a"}', b""):
            found = error_of(http.post("chat/completions", content=sent, headers=kind))
            assert (found[0], "Content-Type: application/json" in found[3]) == (400, True), found
    refused = http.post("chat/completions", json=asked, headers={"authorization": "Bearer ft-none"})
    assert error_of(refused)[0] == 401
