"""Functions of the API over HTTP: every one says who may ask, what it takes, and what is wrong with a request."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from ft_assets import api
from ft_assets.api import access as api_access
from ft_assets.remote.calls import CALLS, PLATFORM_TOO, Call
from ft_assets.server.long_calls import LongCalls, StillRunning
from ft_resources.errors import TooManyRequests, UserError
from tests.described_answers import description_of
from tests.server.conftest import Asker, until

Http = Callable[..., httpx.Client]
ROLES: tuple[api.Role, ...] = ("viewer", "member", "promoter", "admin")
SENT = ("add_dataset", "watch_dataset", "register_recipe", "estimate_file", "submit")


@pytest.fixture
def http(asker: Asker) -> Http:
    return lambda role="admin", tenant="acme": asker(tenant, role, below="/ft/calls")


def error_of(answer: httpx.Response) -> tuple[int, str | None, str | None]:
    """Status, param and code of an error."""
    error = answer.json()["error"]
    assert error.keys() - {"ft"} == {"message", "type", "param", "code"}
    return answer.status_code, error["param"], error["code"]


def ask(client: httpx.Client, call: Call, **changes: Any) -> httpx.Response:
    """Ask for ``call`` with plausible arguments."""
    plain: dict[str, Any] = {
        "threshold": 0.5,
        "gates": [],
        "addresses": [],
        "targets": [],
        "steps": [1, 100],
        "outcomes": ["thumbs"],
        "margins": {},
        "latency_limit_s": None,
        "role": "viewer",
        "tenant": "",
        **dict.fromkeys(("top", "limit", "after", "minimum", "shadow", "most"), 1),
    }
    given = {name: plain.get(name, "x") for name in call.takes}
    given = {name: False if kind is bool else given[name] for name, kind in call.takes.items()} | changes
    if call.posted:
        return client.post(f"/{call.name}", json=given)
    return client.get(f"/{call.name}", params=given)


@pytest.mark.statistics
def test_every_call_says_who_may_ask(http: Http, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # There are more calls than wrong keys that an address may send in a minute.
    monkeypatch.setattr(api_access, "_WRONG_KEYS_PER_MINUTE", 2 * len(CALLS))
    clients = {role: http(role) for role in ROLES}
    platform = http("platform", "shared")
    nobody = httpx.Client(base_url=f"{url}/ft/calls")
    for call in CALLS.values():
        assert error_of(ask(nobody, call)) == (401, None, "invalid_api_key"), call.name
        for role in ROLES:
            refused = ask(clients[role], call)
            may = ROLES.index(role) >= ROLES.index(call.role)
            assert (refused.status_code == 403) != may, (call.name, role, refused.text)
            assert refused.status_code < 500, (call.name, refused.text)
        assert (ask(platform, call).status_code == 403) == (call.name not in PLATFORM_TOO), call.name
    nobody.close()


@pytest.mark.statistics
def test_an_argument_that_a_call_does_not_have_is_an_error_by_its_name(http: Http) -> None:
    admin = http()
    for call in CALLS.values():
        assert error_of(ask(admin, call, store="s3://elsewhere")) == (400, "store", "unknown_parameter"), call.name
    for name in SENT:
        assert error_of(admin.post(f"/{name}", json={"store": "s3://elsewhere"}))[0] == 400, name


WRONG: list[tuple[str, dict[str, Any], int, str]] = [
    ("dataset_report", {"key": "acme.none.v1"}, 400, "there is no dataset version 'acme.none.v1'"),
    ("dataset_report", {"key": "globex.none.v1"}, 404, "there is no dataset 'globex.none.v1'"),
    ("dataset_report", {"key": "../x"}, 400, "cannot be part of a dataset key"),
    ("get_recipe", {"key": "none.v1"}, 404, "there is no recipe 'none.v1'"),
    ("status", {"submission": "../../globex/submissions/0123456789abcdef"}, 404, "there is no submission"),
    ("works", {"submission": "0" * 16}, 404, "there is no submission"),
    ("log_state", {"target": "acme/../globex"}, 404, "there is nothing at"),
    ("find_adapter", {"source": "globex/adapter/" + "0" * 64}, 404, "there is nothing at"),
    ("show_line", {"line": "globex.a.b"}, 404, "there is no line"),
    ("list_notices", {"tenant": "globex"}, 403, "a tenant's key means its own tenant"),
    ("list_notices", {"limit": -1}, 400, "at least 0"),
    ("usage", {"month": "soon"}, 400, "'soon' is not a month"),
    ("promote", {"target": "x", "to": "dev", "reason": "x" * 2001}, 400, "at most 2000"),
    ("create_key", {"tenant": "acme", "role": "platform"}, 403, "this requires the role platform"),
    ("revoke_key", {"prefix": "none"}, 404, "there is no key 'none'"),
    ("add_dataset", {"name": "globex.x", "rows": {"files": []}}, 403, "a dataset is named after its tenant"),
    ("add_dataset", {"name": "x", "rows": {"files": ["file-../../x"]}}, 400, "must look like"),
    ("add_dataset", {"name": "x", "rows": {"files": ["file-" + "0" * 24]}}, 404, "there is no file"),
    ("add_dataset", {"name": "x", "rows": {"policy": {"name": "../x", "text": ""}}}, 400, "does not name a file"),
    ("add_dataset", {"name": "x", "rows": {"policy": {"name": "ä" * 150, "text": ""}}}, 400, "longer than 200 bytes"),
    ("register_recipe", {"file": {"recipe": {"name": "r.yaml", "text": "base: folder:/etc"}}}, 400, "a folder cannot"),
    ("register_recipe", {"file": {"recipe": {"name": "r.yaml", "text": "- 1"}}}, 400, "r.yaml"),
    ("register_recipe", {"file": {"recipe": {"name": "r.yaml", "text": "key: 3\n"}}}, 400, "r.yaml"),
    ("submit", {"dataset": "acme.x.v1", "recipe": "/etc/x.yaml"}, 400, "recipe key '/etc/x.yaml'"),
    ("submit", {"dataset": "/etc/passwd", "base": "hub:org/x@main"}, 400, "has the form tenant.name.vN"),
    ("submit", {"dataset": "acme.x.v1", "base": "/etc"}, 400, "a folder cannot be sent"),
    ("submit", {"dataset": "acme.x.v1", "base": "./base"}, 400, "a folder cannot be sent"),
]


def test_a_wrong_call_has_its_error_as_the_function_raised_it(http: Http) -> None:
    admin = http()
    for name, given, status, said in WRONG:
        posted = name in SENT or CALLS[name].posted
        answer = admin.post(f"/{name}", json=given) if posted else admin.get(f"/{name}", params=given)
        error = answer.json()["error"]
        assert (answer.status_code, said in error["message"]) == (status, True), (name, given, answer.text)
        if "ft" in error:
            assert error["ft"].keys() == {"kind", "what", "where", "remedy"}
            assert "/tmp" not in answer.text


def test_every_call_is_described(served: FastAPI) -> None:
    paths = description_of(served)["paths"]
    for name, call in CALLS.items():
        (described,) = paths[f"/v1/ft/calls/{name}"].values()
        assert described["description"], name
        assert (described["responses"].keys() >= {"200", "202"}) == call.slow, name
        if call.takes and not call.posted:
            assert {each["name"] for each in described["parameters"]} == {*call.takes, "authorization"}, name
    schemas = description_of(served)["components"]["schemas"]
    for name in (*CALLS, *SENT):
        (described,) = paths[f"/v1/ft/calls/{name}"].values()
        body = described["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        # Of what it answers with, and not of anything.
        assert schemas[body]["properties"]["answer"].keys() & {"$ref", "type", "anyOf"}, name


def test_a_long_call_goes_on_beside_the_requests_that_wait_for_it() -> None:
    calls, done, count = LongCalls(wait_s=0.01), threading.Event(), []

    def work() -> str:
        count.append(1)
        done.wait()
        return "made"

    for _ in range(3):
        with pytest.raises(StillRunning):
            calls.run("acme", "a", work)
    done.set()
    assert _ended(calls, work) == "made"
    assert count == [1]
    calls.stop()


def _ended(calls: LongCalls, work: Callable[[], str]) -> Any:
    while True:
        try:
            return calls.run("acme", "a", work)
        except StillRunning:
            continue


def test_an_error_of_a_long_call_is_raised_once_and_a_tenant_has_few_at_once() -> None:
    calls, done = LongCalls(wait_s=0.01), threading.Event()

    def fails() -> None:
        raise UserError("no")

    with pytest.raises(UserError, match="no"):
        calls.run("acme", "a", fails)
    for number in range(3):
        with pytest.raises(StillRunning):
            calls.run("acme", f"waits-{number}", done.wait)
    with pytest.raises(TooManyRequests):
        calls.run("acme", "one more", done.wait)
    with pytest.raises(StillRunning):
        calls.run("globex", "its first", done.wait)
    done.set()
    calls.stop()


def test_requests_that_wait_leave_threads_to_other_tenants() -> None:
    calls, done, began = LongCalls(wait_s=600), threading.Event(), threading.Semaphore(0)
    run = partial(calls.run, "acme", "one", done.wait)

    def waits() -> None:
        began.release()
        run()

    waiting = [threading.Thread(target=waits) for _ in range(6)]
    for each in waiting:
        each.start()
        began.acquire()
    until(lambda: calls._waiting["acme"] == 6)
    with pytest.raises(TooManyRequests):
        run()
    assert calls.run("globex", "own", lambda: "made") == "made"
    done.set()
    for each in waiting:
        each.join()
    assert run() is True
    calls.stop()
