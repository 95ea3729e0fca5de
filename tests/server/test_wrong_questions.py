"""Every wrong question to a model has its error object, and none reaches a server."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.e2e.project import Project
from tests.server.chat_world import LINE, Line, OwnFleet
from tests.server.conftest import Asker
from tests.server.scripted_server import Scripted
from tests.server.test_wrong_requests import error_of

USER = {"role": "user", "content": "hi"}
CHATS: list[tuple[dict[str, Any], int, str | None, str, str]] = [
    ({"model": None}, 400, "model", "invalid_value", "valid string"),
    ({"model": ""}, 400, "model", "invalid_value", "at least 1"),
    ({"model": "acme.colours.none"}, 404, None, "not_found", "there is no model 'acme.colours.none'"),
    ({"messages": []}, 400, "messages", "invalid_value", "at least 1"),
    ({"messages": "hi"}, 400, "messages", "invalid_value", "valid list"),
    ({"messages": [{"role": "bot", "content": "a"}]}, 400, "messages.0.role", "invalid_value", "'system'"),
    ({"messages": [{"role": "user"}]}, 400, "messages[0].content", "invalid_value", "missing"),
    ({"messages": [{"role": "user", "content": " "}]}, 400, "messages[0].content", "invalid_value", "empty"),
    ({"messages": [USER, {"role": "developer", "content": "a"}]}, 400, "messages[1].role", "invalid_value",
     "only come first"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]}, 400,
     "messages[0].content[0]", "invalid_value", "'image_url' cannot be used"),
    ({"messages": [{**USER, "weight": 1}]}, 400, "messages.0.weight", "unknown_parameter", "not permitted"),
    ({"messages": [{**USER, "tool_calls": [{"id": "a"}]}]}, 400, "messages[0].tool_calls", "invalid_value",
     "only the assistant"),
    ({"max_tokens": 0}, 400, "max_tokens", "invalid_value", "greater"),
    ({"max_tokens": 5, "max_completion_tokens": 6}, 400, None, "invalid_value", "differ"),
    ({"max_tokens": 250}, 400, "messages", "context_length_exceeded", "the context holds 256 tokens"),
    ({"messages": [{"role": "user", "content": "hello " * 200}]}, 400, "messages", "context_length_exceeded",
     "256 tokens"),
    ({"temperature": 2.1}, 400, "temperature", "invalid_value", "less than or equal to 2"),
    ({"temperature": "hot"}, 400, "temperature", "invalid_value", "valid number"),
    ({"top_p": 0}, 400, "top_p", "invalid_value", "greater than 0"),
    ({"seed": -1}, 400, "seed", "invalid_value", "greater"),
    ({"n": 2}, 400, "n", "invalid_value", "should be 1"),
    ({"stop": ""}, 400, "stop.0", "invalid_value", "at least 1"),
    ({"stop": ["a", "b", "c", "d", "e"]}, 400, "stop", "invalid_value", "at most 4"),
    ({"presence_penalty": 0.5}, 400, "presence_penalty", "invalid_value", "less than or equal to 0"),
    ({"frequency_penalty": -1}, 400, "frequency_penalty", "invalid_value", "greater than or equal to 0"),
    ({"logit_bias": {"5": 1}}, 400, "logit_bias", "invalid_value", "at most 0"),
    ({"tools": [{"type": "function"}]}, 400, "tools", "invalid_value", "at most 0"),
    ({"response_format": {"type": "json_object"}}, 400, "response_format.type", "invalid_value", "'text'"),
    ({"top_logprobs": 3}, 400, None, "invalid_value", "top_logprobs needs logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, 400, "top_logprobs", "invalid_value", "less than or equal to 20"),
    ({"prompt_logprobs": 1}, 400, "prompt_logprobs", "unknown_parameter", "not permitted"),
    ({"stream_options": {"include_obfuscation": True}}, 400, "stream_options.include_obfuscation",
     "unknown_parameter", "not permitted"),
]  # fmt: skip
TEXTS: list[tuple[dict[str, Any], int, str | None, str, str]] = [
    ({"prompt": ""}, 400, "prompt", "invalid_value", "empty"),
    ({"prompt": ["a", "b"]}, 400, None, "invalid_value", ""),
    ({"echo": True}, 400, "echo", "invalid_value", "False"),
    ({"logprobs": 1}, 400, "logprobs", "invalid_value", "None"),
    ({"suffix": "a"}, 400, "suffix", "invalid_value", "None"),
    ({"best_of": 2}, 400, "best_of", "invalid_value", "should be 1"),
    ({"prompt": [7] * 250}, 400, "prompt", "context_length_exceeded", "256 tokens"),
    ({"messages": [USER]}, 400, "messages", "unknown_parameter", "not permitted"),
]
NEUTRAL = {
    "n": 1, "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}, "user": "u", "stop": None, "seed": None,
    "stream": False, "stream_options": None, "temperature": None, "top_p": 1,
}  # fmt: skip
NEUTRAL_CHAT = {
    **NEUTRAL, "tools": [], "tool_choice": "none", "response_format": {"type": "text"}, "store": False,
    "metadata": {"team": "paint"}, "service_tier": "auto", "logprobs": False, "modalities": ["text"],
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
    assert scripted.asked == []


def test_settings_that_change_nothing_are_taken(http: httpx.Client, scripted: Scripted) -> None:
    chat = http.post("chat/completions", json={"model": LINE, "messages": [USER], **NEUTRAL_CHAT})
    assert chat.json()["choices"][0]["message"]["content"] == "fine"
    text = http.post("completions", json={"model": LINE, "prompt": "a", **NEUTRAL, "echo": False, "best_of": 1})
    assert text.json()["choices"][0]["text"] == "fine"
    assert [each["temperature"] for each in scripted.asked] == [1.0, 1.0]


def test_no_key_and_no_json_have_their_errors(http: httpx.Client) -> None:
    assert error_of(http.post("chat/completions", content=b"{"))[:3] == (400, None, "invalid_value")
    assert error_of(http.get("chat/completions"))[:3] == (405, None, "method_not_allowed")
    asked = {"model": LINE, "messages": [USER]}
    refused = http.post("chat/completions", json=asked, headers={"authorization": "Bearer ft-none"})
    assert error_of(refused)[0] == 401
