"""A judge over HTTP: what it can do to us, and which answers count."""

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ft_assets.settings.judge_hosts import JudgeHost, allowed_host
from ft_assets.settings.recipe.judges import JudgeModel
from ft_assets.workers.evals.preferences import network
from ft_assets.workers.evals.preferences.endpoint import EndpointJudge, read_completion
from ft_assets.workers.evals.preferences.judge import (
    CUT_SHORT,
    DECLINED,
    TIMED_OUT,
    TOO_LONG,
    UNAVAILABLE,
    UNREADABLE,
    Judgement,
    JudgeUnavailable,
)
from ft_assets.workers.evals.preferences.network import NotAnswered, post_json
from ft_resources import pinned_http
from ft_resources.errors import UserError
from ft_resources.pinned_http import Refused
from tests.workers.evals.preferences.judge_server import Answer, JudgeServer, judge_server

LOCAL = JudgeHost(host="127.0.0.1", keys=("FT_JUDGE_KEY_TEST",), private=True)


def ask(
    server: JudgeServer, messages: Sequence[str] = ("one",), environment: dict[str, str] | None = None, **settings: Any
) -> dict[int, Judgement]:
    model = JudgeModel(endpoint=server.url, model="judge", **settings)
    found: dict[int, Judgement] = {}
    judge = EndpointJudge(model, LOCAL, seed=7, environment=environment or {}, first_pause_s=0.0)
    judge.ask(messages, lambda place, judgement: found.update({place: judgement}))
    return found


def test_every_message_is_asked_once_and_comes_back_under_its_place() -> None:
    with judge_server(lambda message: Answer(text=f"{message}\nVERDICT: A")) as server:
        found = ask(server, [f"number {n}" for n in range(20)], concurrency=3)
    assert found == {n: Judgement(text=f"number {n}\nVERDICT: A") for n in range(20)}
    assert sorted(server.messages) == sorted(f"number {n}" for n in range(20))
    assert server.asked[0] == {
        "model": "judge",
        "messages": [{"role": "user", "content": server.messages[0]}],
        "temperature": 0,
        "max_tokens": 512,
        "seed": 7,
    }


def test_no_more_are_asked_at_once_than_the_recipe_says() -> None:
    now, most, lock = [0], [0], threading.Lock()
    both = threading.Barrier(2)

    def judge(message: str) -> Answer:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        both.wait()
        with lock:
            now[0] -= 1
        return Answer()

    with judge_server(judge) as server:
        ask(server, ["m"] * 8, concurrency=2)
    assert most[0] == 2


def test_a_busy_endpoint_is_asked_again_and_said_to_be_unavailable_when_it_stays_so() -> None:
    statuses = iter([429, 503, 200])
    with judge_server(lambda message: Answer(status=next(statuses))) as server:
        assert ask(server) == {0: Judgement(text="VERDICT: TIE")}
        assert len(server.asked) == 3
    with judge_server(lambda message: Answer(status=500)) as server:
        assert ask(server) == {0: Judgement(problem=UNAVAILABLE)}
        assert len(server.asked) == 5


def test_an_endpoint_that_asks_for_patience_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    statuses, waited = iter([429, 200]), []
    monkeypatch.setattr(threading.Event, "wait", _note(waited, threading.Event.wait))
    with judge_server(lambda message: Answer(status=next(statuses), headers={"Retry-After": "1"})) as server:
        assert ask(server)[0].text
    assert 1.0 in waited


def _note(waited: list[float | None], real: Callable[..., bool]) -> Callable[..., bool]:
    def wait(self: threading.Event, timeout: float | None = None) -> bool:
        waited.append(timeout)
        # Only the pause is cut short: an exchange keeps its time, or a slow server would seem to be silent.
        return real(self, 0.01 if timeout == 1.0 else timeout)

    return wait


def test_an_endpoint_that_stays_down_ends_the_asking_and_not_after_every_prompt() -> None:
    with judge_server(lambda message: Answer(status=500)) as server:
        with pytest.raises(JudgeUnavailable, match=r"127\.0\.0\.1 did not answer \d+ times in a row"):
            ask(server, ["m"] * 200, concurrency=2)
        assert len(server.asked) < 60


def error_of(code: object, status: int) -> Answer:
    return Answer(status=status, body=json.dumps({"error": {"message": "no", "code": code}}).encode())


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer(silent=True), TIMED_OUT),
        (Answer(drip_s=0.05), TIMED_OUT),
        (Answer(dies=True), UNAVAILABLE),
        (Answer(body=b"x" * (network.MAX_BODY + 1)), UNREADABLE),
        (Answer(body=b"<html>"), UNREADABLE),
        (Answer(body=b'{"choices": [NaN]}'), UNREADABLE),
        (Answer(body=b'{"choices": []}'), UNREADABLE),
        (Answer(body=b"[" * 100_000), UNREADABLE),
        (Answer(body=b'{"choices": [{"message": {"content": null, "refusal": "no"}}]}'), UNREADABLE),
        (Answer(text="x" * 20_001), UNREADABLE),
        (Answer(finish_reason="length"), CUT_SHORT),
        (Answer(finish_reason="content_filter"), DECLINED),
        (Answer(status=400), DECLINED),
        (error_of("content_policy_violation", 400), DECLINED),
        (error_of([7], 422), DECLINED),
        *((Answer(status=status), UNAVAILABLE) for status in (408, 429, 500, 503, 522, 529)),
        (error_of("rate_limit_exceeded", 429), UNAVAILABLE),
        (Answer(status=413), TOO_LONG),
    ],
)
def test_what_is_no_judgement_is_told_by_name_and_never_taken_for_one(answer: Answer, problem: str) -> None:
    with judge_server(lambda message: answer) as server:
        patience = 1.0 if problem is TIMED_OUT else 600.0
        assert ask(server, timeout_s=patience) == {0: Judgement(problem=problem)}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(status=401), "the key was rejected"),
        (Answer(status=402), "no credit left"),
        (Answer(status=403), "access was denied"),
        (Answer(status=404), "does not exist"),
        (Answer(status=405), "not a chat-completions API"),
        (Answer(status=410), "no longer available"),
        (Answer(status=501), "not a chat-completions API"),
        (error_of("insufficient_quota", 429), "no credit left"),
        (error_of("unsupported_parameter", 400), "rejects one of our parameters"),
        (error_of("model_not_found", 400), "does not exist"),
        (error_of("invalid_api_key", 403), "the key was rejected"),
        (Answer(status=302, headers={"Location": "http://169.254.169.254/latest/meta-data"}), "not followed"),
        (Answer(status=307, headers={"Location": "http://169.254.169.254/latest/meta-data"}), "not followed"),
    ],
)
def test_what_no_other_prompt_would_change_ends_the_asking_with_a_sentence(answer: Answer, words: str) -> None:
    with judge_server(lambda message: answer) as server:
        with pytest.raises(UserError, match=words) as caught:
            ask(server, ["a secret prompt"])
        assert len(server.asked) == 1
    assert "secret prompt" not in str(caught.value)


def test_the_key_is_sent_and_shown_nowhere(tmp_path: Path) -> None:
    key = "sk-123"
    with judge_server(lambda message: Answer()) as server:
        ask(server, key="FT_JUDGE_KEY_TEST", environment={"FT_JUDGE_KEY_TEST": key})
        (tmp_path / "key").write_text(f"{key}\n")
        ask(server, key="FT_JUDGE_KEY_TEST", environment={"FT_JUDGE_KEY_TEST_FILE": str(tmp_path / "key")})
        ask(server)
    assert [headers.get("authorization") for headers in server.headers] == [f"Bearer {key}"] * 2 + [None]
    with judge_server(lambda message: Answer(status=401)) as server, pytest.raises(UserError) as caught:
        ask(server, key="FT_JUDGE_KEY_TEST", environment={"FT_JUDGE_KEY_TEST": key})
    assert key not in str(caught.value)


@pytest.mark.parametrize("environment", [{}, {"FT_JUDGE_KEY_TEST": "two\nlines"}, {"FT_JUDGE_KEY_TEST_FILE": "/no"}])
def test_a_key_that_is_not_there_is_named(environment: dict[str, str]) -> None:
    model = JudgeModel(endpoint="https://judge.example.com/v1", model="judge", key="FT_JUDGE_KEY_TEST")
    with pytest.raises(UserError, match="the key FT_JUDGE_KEY_TEST is missing"):
        EndpointJudge(model, LOCAL, seed=0, environment=environment)


def test_only_hosts_that_the_platform_names_are_asked_and_only_with_their_keys() -> None:
    def refusal(model: JudgeModel, *hosts: JudgeHost) -> str:
        with pytest.raises(UserError) as caught:
            allowed_host(model, hosts)
        return caught.value.what

    model = JudgeModel(endpoint="https://Judge.Example.com/v1", model="m", key="FT_JUDGE_KEY_A")
    assert "judge.example.com may not receive" in refusal(model)
    assert "may not receive" in refusal(model, JudgeHost(host="example.com", keys=("FT_JUDGE_KEY_A",)))
    named = JudgeHost(host="judge.example.com")
    assert "FT_JUDGE_KEY_A may not be sent to judge.example.com" in refusal(model, named)
    trusted = JudgeHost(host="judge.example.com", keys=("FT_JUDGE_KEY_A",))
    assert allowed_host(model, [named.model_copy(update={"host": "other"}), trusted]) == trusted
    plain = JudgeModel(endpoint="http://judge.example.com/v1", model="m")
    assert "uses http" in refusal(plain, named)
    assert allowed_host(plain, [named.model_copy(update={"private": True})]).private


@pytest.mark.parametrize(
    "endpoint_url",
    [
        "ftp://x/v1",
        "https://user:key@x/v1",
        "https://x/v1?key=1",
        "https://x/v1#a",
        "https:///v1",
        "https://x:99999/v1",
    ],
)
def test_a_url_that_holds_a_key_or_is_none_is_refused(endpoint_url: str) -> None:
    with pytest.raises(ValueError, match="endpoint"):
        JudgeModel(endpoint=endpoint_url, model="m")


def test_a_name_that_leads_into_this_network_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with judge_server(lambda message: Answer()) as server:
        port = int(server.url.rpartition(":")[2].partition("/")[0])

        def resolve(*addresses: str) -> None:
            found = [(2, 1, 6, "", (address, port)) for address in addresses]
            monkeypatch.setattr(pinned_http.socket, "getaddrinfo", lambda *args, **kwargs: found)

        def post(*, private: bool) -> int:
            url = f"http://judge.example.com:{port}/v1"
            return post_json(url, b"{}", {}, timeout_s=600.0, private=private).status

        for addresses in (("127.0.0.1",), ("93.184.216.34", "10.0.0.1"), ("::ffff:127.0.0.1",), ("64:ff9b::7f00:1",)):
            resolve(*addresses)
            with pytest.raises(Refused, match="which is not a public address"):
                post(private=False)
        for address in ("169.254.169.254", "fe80::1%eth0", "224.0.0.1", "0.0.0.0"):
            resolve(address)
            with pytest.raises(Refused):
                post(private=True)
        assert not server.asked
        # If the platform allows a host in this network.
        resolve("127.0.0.1")
        with pytest.raises(NotAnswered):
            # No message in the body: the server's handler fails, and its address was reached.
            post(private=True)


def test_a_host_without_an_address_and_a_closed_port_are_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    with judge_server(lambda message: Answer()) as server:
        pass
    assert ask(server) == {0: Judgement(problem=UNAVAILABLE)}


def test_half_of_a_surrogate_pair_in_a_judgement_does_not_get_into_files() -> None:
    body = b'{"choices": [{"message": {"content": "\\ud800 VERDICT: A"}}]}'
    assert read_completion(body).text.encode().decode()


def test_when_the_asking_is_interrupted_nobody_waits_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stop(BaseException):
        pass

    def keep(place: int, judgement: Judgement) -> None:
        raise Stop

    with judge_server(lambda message: Answer()) as server:
        model = JudgeModel(endpoint=server.url, model="judge", concurrency=1)
        judge = EndpointJudge(model, LOCAL, seed=0, environment={})
        with pytest.raises(Stop):
            judge.ask(["m"] * 500, keep)
        assert len(server.asked) < 100
