"""The client of vLLM: nothing that ends its engine is sent, and adapters are fetched by their names."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from ft_resources.errors import NotFound
from ft_resources.serving.errors import BadAdapter, BadRequest
from ft_resources.serving.server import Sampling, Token
from ft_resources.serving.vllm_server import VllmServer
from tests.resources.serving.test_http_server import Fake
from tests.resources.serving.test_http_server import fake as fake

ENDS_THE_ENGINE = {"prompt_logprobs", "echo", "load_inplace"}
CHOICE = {
    "text": "a",
    "finish_reason": "length",
    "token_ids": [9],
    "logprobs": {"token_logprobs": [-3.0], "top_logprobs": [{"token_id:8": -0.1, "token_id:9": -3.0}]},
}


@pytest.fixture
def client(fake: Fake) -> Iterator[VllmServer]:
    with closing(VllmServer(fake.url, "key")) as made:
        yield made


def test_a_score_holds_the_server_to_each_token(fake: Fake, client: VllmServer) -> None:
    fake.says({"choices": [CHOICE]})
    assert client.score("name", [1, 2], [9, 9], top=1) == [Token(id=9, logprob=-3.0, top={8: -0.1})] * 2
    asked = sorted((body for _, body in fake.asked), key=lambda body: len(body["prompt"]))
    assert [body["prompt"] for body in asked] == [[1, 2], [1, 2, 9]]
    for body in asked:
        assert (body["max_tokens"], body["logprobs"], body["allowed_token_ids"]) == (1, 1, [9])
        assert not ENDS_THE_ENGINE & set(body)
    with pytest.raises(BadRequest):
        client.score("name", [], [9])


def test_no_request_of_the_client_has_what_ends_the_engine(fake: Fake, client: VllmServer) -> None:
    fake.says({"choices": [CHOICE]})
    client.complete("name", [1], Sampling(max_tokens=1, logprobs=20))
    list(_until_refused(client))
    client.fetch("name")
    assert not any(ENDS_THE_ENGINE & set(body or {}) for _, body in fake.asked)


def test_an_adapter_is_fetched_by_asking_for_a_token(fake: Fake, client: VllmServer) -> None:
    fake.says({"choices": [{**CHOICE, "logprobs": None}]})
    client.fetch("name")
    ((path, body),) = fake.asked
    assert (path, body["model"], body["max_tokens"]) == ("/v1/completions", "name", 1)


def test_why_an_adapter_is_not_fetched_is_told(fake: Fake, client: VllmServer) -> None:
    fake.refuses(404, "The model `name` does not exist.")
    with pytest.raises(NotFound, match="does not exist") as caught:
        client.fetch("name")
    assert "another base" in caught.value.remedy
    fake.refuses(400, "LoRA adapter 'name' was found but could not be loaded.")
    with pytest.raises(BadAdapter, match="could not be loaded"):
        client.fetch("name")


def _until_refused(client: VllmServer) -> Iterator[object]:
    try:
        yield from client.stream("name", [1], Sampling(max_tokens=1))
    except Exception:
        return
