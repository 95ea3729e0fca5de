"""How much may be asked: counted over all servers on one database, told in headers, and kept by OpenAI's own client."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx
import openai
import pytest
import sqlalchemy as sa
import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient
from openai import _base_client

from ft_assets import api
from ft_assets.control.access import rate_limits
from ft_assets.control.access.rate_limits import Limit
from ft_assets.server.app import api_app
from ft_resources.errors import NotIdentified
from tests.clock import Clock
from tests.control.metering.conftest import url as database_url
from tests.e2e.project import Project
from tests.server.conftest import Client, Nobody

__all__ = ["database_url"]
HEADERS = ("limit", "remaining", "reset")
KEY = Limit(subject="one:a", per_minute=6)


@pytest.fixture
def keys(database_url: str) -> Iterator[api.Access]:
    access = api.open_access(database_url)
    yield access
    access.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of limits."""
    clock = Clock(time.time())
    monkeypatch.setattr(rate_limits, "time", clock)
    return clock


def limits(project: Project, **settings: Any) -> None:
    lines = "".join(f", {name}: {value}" for name, value in settings.items())
    (project.folder / "tenants.yaml").write_text(f"tiers:\n  small: {{priority: batch{lines}}}\n")
    with (project.folder / "tenants.yaml").open("a") as file:
        file.write("tenants:\n  acme: {tier: small}\n  globex: {tier: small}\n")


def test_a_minutes_requests_may_come_at_once_and_then_one_at_a_time(keys: api.Access, clock: Clock) -> None:
    left = [keys.count([KEY])[0] for _ in range(7)]
    assert [each.remaining for each in left] == [5, 4, 3, 2, 1, 0, 0]
    assert [each.retry_s > 0 for each in left] == [False] * 6 + [True]
    assert left[-1].retry_s == pytest.approx(10, abs=0.01)
    assert left[0].reset_s == pytest.approx(10, abs=0.01)
    clock.advance(9.9)
    assert keys.count([KEY])[0].retry_s > 0
    clock.advance(0.2)
    assert keys.count([KEY])[0].retry_s == 0
    # Refused ones were not counted: who asks too often does not wait for ever.
    clock.advance(60)
    assert keys.count([KEY])[0].remaining == 5


def test_of_several_limits_each_counts_what_it_allows(keys: api.Access, clock: Clock) -> None:
    tenant = Limit(subject="tenant:acme", per_minute=3)
    for _ in range(3):
        assert [each.retry_s for each in keys.count([tenant, KEY])] == [0, 0]
    both = keys.count([tenant, KEY])
    assert [each.retry_s > 0 for each in both] == [True, False]
    assert [each.limit for each in both] == [3, 6]


def test_as_many_requests_as_a_minute_has_at_one_moment_are_all_allowed_and_the_next_is_not(
    keys: api.Access, clock: Clock
) -> None:
    many = Limit(subject="one:b", per_minute=120)
    assert all(not keys.count([many])[0].retry_s for _ in range(120))
    assert keys.count([many])[0].retry_s > 0


def test_a_request_is_identified_and_counted_in_one_transaction_and_one_of_a_revoked_key_is_not_counted(
    keys: api.Access, clock: Clock
) -> None:
    key, text = api.create_key("acme", access=keys, actor="root")
    asked: list[api.Identity] = []
    begun: list[object] = []
    sa.event.listen(keys._database._engine, "begin", begun.append)

    def limits_of(identity: api.Identity) -> list[Limit]:
        asked.append(identity)
        return [KEY]

    identity, (left,) = keys.admit(text, limits_of)
    assert (identity, left.remaining, asked, len(begun)) == (keys.identify(text), 5, [identity], 1)
    api.revoke_key(key.prefix, access=keys, actor="bea")
    with pytest.raises(NotIdentified, match="is revoked"):
        keys.admit(text, limits_of)
    assert len(asked) == 1
    assert keys.count([KEY])[0].remaining == 4
    assert keys.count([]) == []


def test_whose_requests_are_all_there_again_is_forgotten(keys: api.Access, clock: Clock) -> None:
    keys.count([KEY])
    clock.advance(1)
    keys.count([Limit(subject="one:other", per_minute=6)])
    clock.advance(9.5)
    rate_limits.forget_old(keys._database)
    with keys._database.connect() as connection:
        assert [row.subject for row in connection.execute(rate_limits.rate_limits.select())] == ["one:other"]


def test_a_person_of_the_console_is_counted_and_told_by_a_page_when_it_was_too_much(
    project: Project, served: FastAPI, access: api.Access
) -> None:
    limits(project, requests_per_minute_of_one=4)
    _, key = api.create_key("acme", role="viewer", access=access, actor="root")
    person = TestClient(served, base_url="http://127.0.0.1", follow_redirects=False)
    own = {"origin": "http://127.0.0.1", "sec-fetch-site": "same-origin"}
    assert person.post("/console/sign-in", data={"key": key}, headers=own).status_code == 303
    answers = [person.get("/console/usage") for _ in range(5)]
    assert [each.status_code for each in answers] == [200] * 4 + [429]
    assert answers[0].headers["x-ratelimit-remaining-requests"] == "3"
    assert "more than 4 requests a minute" in answers[-1].text.lower()
    assert int(answers[-1].headers["retry-after"]) > 0
    # What a page loads besides is not counted, and whoever holds the same key elsewhere has the same allowance.
    assert person.get("/console/static/console.css").status_code == 200
    header = {"authorization": f"Bearer {key}"}
    assert person.get("/v1/files", headers=header).status_code == 429


def test_requests_that_come_at_once_are_each_counted_on_two_servers(database_url: str) -> None:
    with ExitStack() as stack:
        servers = [api.open_access(database_url) for _ in range(2)]
        for server in servers:
            stack.callback(server.close)
        tenant, one = Limit(subject="tenant:acme", per_minute=20), Limit(subject="one:a", per_minute=1000)
        with ThreadPoolExecutor(8) as pool:
            left = list(pool.map(lambda n: servers[n % 2].count([tenant, one])[0], range(60)))
        allowed = sum(not each.retry_s for each in left)
        # Some come back while they are counted.
        assert 20 <= allowed < 40


def test_two_servers_on_one_database_count_together_and_tell_what_is_left(
    project: Project, database_url: str, clock: Clock
) -> None:
    limits(project, requests_per_minute=100, requests_per_minute_of_one=4)
    with ExitStack() as stack:
        servers = []
        for _ in range(2):
            access = api.open_access(database_url)
            stack.callback(access.close)
            servers.append(TestClient(api_app(project.store, access, orchestrator=Nobody())))
        _, key = api.create_key("acme", access=access, actor="root")
        bearer = {"authorization": f"Bearer {key}"}
        answers = [servers[n % 2].get("/v1/files", headers=bearer) for n in range(5)]
        assert [each.status_code for each in answers] == [200, 200, 200, 200, 429]
        told = [[each.headers[f"x-ratelimit-{name}-requests"] for name in HEADERS] for each in answers]
        assert told == [["4", str(left), f"{(4 - left) * 15}.000s"] for left in (3, 2, 1, 0)] + [["4", "0", "60.000s"]]
        refused = answers[-1]
        assert refused.json()["error"] == {
            "message": "more than 4 requests a minute. Try again in 15.000s.",
            "type": "rate_limit_error",
            "param": None,
            "code": "rate_limit_exceeded",
        }
        assert (refused.headers["retry-after"], refused.headers["retry-after-ms"]) == ("15", "15000")
        _, other = api.create_key("acme", access=access, actor="root")
        assert servers[0].get("/v1/files", headers={"authorization": f"Bearer {other}"}).status_code == 200


def test_a_tenants_keys_share_its_limit_and_another_tenant_is_not_held_back(project: Project, client: Client) -> None:
    limits(project, requests_per_minute=3, requests_per_minute_of_one=600)
    first, second, globex = client(), client(), client("globex")
    first.files.list()
    second.files.list()
    first.files.list()
    with pytest.raises(openai.RateLimitError, match="more than 3 requests a minute"):
        second.files.list()
    globex.files.list()


def test_openais_client_waits_as_it_is_told_and_goes_on(
    project: Project, client: Client, access: api.Access, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits(project, requests_per_minute_of_one=4)
    monkeypatch.setattr(_base_client, "time", clock)
    acme, began = client(max_retries=1), clock()
    answers = [acme.files.with_raw_response.list() for _ in range(6)]
    assert {each.http_response.status_code for each in answers} == {200}
    assert [each.retries_taken for each in answers] == [0, 0, 0, 0, 1, 1]
    assert clock() - began == pytest.approx(30)
    # What was refused changed nothing and is not in the log.
    assert api.audit("acme", access=access) == []


def test_who_has_no_limit_is_told_none(project: Project, client: Client) -> None:
    limits(project, requests_per_minute="null", requests_per_minute_of_one="null")
    answer = client().files.with_raw_response.list()
    assert not [name for name in answer.headers if name.startswith("x-ratelimit")]


def test_an_address_that_guesses_keys_is_held_back_and_a_valid_key_of_it_is_not(
    project: Project, client: Client, access: api.Access, clock: Clock
) -> None:
    acme = client()
    with httpx.Client(base_url=str(acme.base_url), headers={"authorization": "Bearer ft-guess"}) as guesser:
        answers = [guesser.get("files") for _ in range(62)]
    assert [each.status_code for each in answers] == [401] * 60 + [429] * 2
    assert answers[-1].json()["error"]["code"] == "rate_limit_exceeded"
    assert acme.files.list().data == []
    assert len(api.audit(access=access)) == 60


def test_addresses_of_one_ipv6_network_guess_together(keys: api.Access, clock: Clock) -> None:
    for number in range(60):
        assert not api.count_wrong_key(f"2001:db8::{number:x}", access=keys).retry_s
    assert api.count_wrong_key("2001:db8::ffff", access=keys).retry_s
    assert not api.count_wrong_key("2001:db8:0:1::1", access=keys).retry_s
    assert not api.count_wrong_key("unix socket", access=keys).retry_s


def test_a_client_is_who_the_trusted_proxy_says(monkeypatch: pytest.MonkeyPatch, project: Project) -> None:
    from typer.testing import CliRunner

    from ft_assets.cli.main import app

    asked: list[tuple[bool, Any]] = []

    def run(server: uvicorn.Server) -> None:
        asked.append((server.config.proxy_headers, server.config.forwarded_allow_ips))
        server.started = True

    monkeypatch.setattr(uvicorn.Server, "run", run)
    for options in ([], ["--proxy", "10.0.0.0/8"]):
        assert CliRunner().invoke(app, ["serve", *options]).exit_code == 0
    # Without --proxy the second is what uvicorn takes from its own variable, and is not looked at.
    assert (asked[0][0], asked[1]) == (False, (True, "10.0.0.0/8"))
