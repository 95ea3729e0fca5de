"""Signing in, and what a page of another site, another session or a script could send."""

import httpx
import pytest
from fastapi.routing import APIRoute

from ft_assets import api
from ft_assets.server.console.app import PARTS
from ft_assets.server.console.sign_in import own_page
from tests.server.console.world import World


def posts() -> list[str]:
    """Every path of the console by which somebody who is signed in changes something."""
    paths = {
        route.path.replace("{answer}", "approve")
        for part in PARTS
        for route in part.router.routes
        if isinstance(route, APIRoute) and "POST" in route.methods
    }
    return sorted(paths - {"/sign-in", "/oidc/tenant"})


def test_a_session_s_cookie_is_kept_from_scripts_and_from_other_sites(world: World) -> None:
    plain = world.person(signed_in=False)
    answer = plain.client.post("/console/sign-in", data={"key": plain.key}, headers=plain.own)
    kept = answer.headers["set-cookie"].lower()
    assert kept.startswith("ft-session=")
    assert {"httponly", "samesite=lax", "path=/"} <= set(kept.split("; "))
    by_tls = {**plain.own, "x-forwarded-proto": "https"}
    answer = plain.client.post("/console/sign-in", data={"key": plain.key}, headers=by_tls)
    kept = answer.headers["set-cookie"]
    assert kept.startswith("__Host-ft-session=")
    assert "Secure" in kept
    assert "domain" not in kept.lower()


def test_the_cookie_opens_the_console_alone(world: World) -> None:
    person = world.person()
    assert person.get("jobs").status_code == 200
    assert person.client.get("/v1/files").status_code == 401
    key = {"authorization": f"Bearer {person.key}"}
    assert httpx.get(f"{world.url}/console/jobs", headers=key).status_code == 303


def test_nobody_sees_a_page_without_a_session(world: World) -> None:
    with httpx.Client(base_url=world.url) as nobody:
        assert nobody.get("/").headers["location"] == "/console/"
        answer = nobody.get("/console/lines/acme.a.b?x=1")
        assert (answer.status_code, answer.headers["location"]) == (
            303,
            "/console/sign-in?next=/console/lines/acme.a.b%3Fx%3D1",
        )
        # A script is told, and not led to a page.
        assert nobody.get("/console/jobs", headers={"x-part": "1"}).status_code == 401
        for path in posts():
            answer = nobody.post(f"/console{path}", headers={"sec-fetch-site": "same-origin"})
            assert answer.status_code == 401, path


def test_signing_out_ends_the_session_and_not_only_the_cookie(world: World) -> None:
    person = world.person()
    kept = dict(person.client.cookies)
    assert person.send("sign-out").status_code == 303
    assert httpx.get(f"{world.url}/console/jobs", cookies=kept).status_code == 303


def test_a_revoked_key_ends_its_sessions_at_once(world: World) -> None:
    person = world.person()
    api.revoke_key(person.key, access=world.access, actor="root")
    answer = person.get("jobs")
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/sign-in?next=/console/jobs")


def test_every_change_needs_the_token_of_this_very_session(world: World) -> None:
    person, other = world.person(role="admin"), world.person("globex", "admin")
    paths = posts()
    assert len(paths) >= 14
    for path in paths:
        for token in ("", "0" * 64, other.token):
            sent: dict[str, object] = {"data": {"form_token": token}}
            if path == "/files":
                sent["files"] = {"file": ("rows.jsonl", b'{"prompt": "a", "completion": "b"}\n')}
            query = "?name=a.jsonl" if path.endswith("look") else ""
            answer = person.client.post(f"/console{path}{query}", headers=person.own, **sent)
            assert (answer.status_code, "not sent by a page of this session" in answer.text) == (403, True), path
    assert "No files yet" in person.get("files").text


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"origin": "https://evil.test"},
        {"origin": "null"},
        {"origin": "https://evil.test", "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
    ],
    ids=str,
)
def test_another_site_changes_nothing_even_with_the_token(world: World, said: dict[str, str]) -> None:
    person = world.person()
    answer = person.client.post("/console/sign-out", data={"form_token": person.token}, headers=said)
    assert (answer.status_code, "not sent by a page of the console" in answer.text) == (403, True)
    assert person.get("jobs").status_code == 200
    # A session that somebody else chose would be shown what a person uploads.
    assert person.client.post("/console/sign-in", data={"key": person.key}, headers=said).status_code == 403


def test_a_wrong_key_is_told_and_guessing_is_held_back(world: World) -> None:
    stranger = world.person(signed_in=False)
    answer = stranger.client.post("/console/sign-in", data={"key": "ft-guess"}, headers=stranger.own)
    assert (answer.status_code, "The API key is unknown" in answer.text) == (401, True)
    answers = {
        stranger.client.post("/console/sign-in", data={"key": f"ft-{number}"}, headers=stranger.own).status_code
        for number in range(80)
    }
    assert answers == {401, 429}
    # Who has a key is not held back.
    stranger.sign_in()


@pytest.mark.parametrize(
    ("asked", "led_to"),
    [
        ("/console/lines/acme.a.b?x=1", "/console/lines/acme.a.b?x=1"),
        ("", "/console/jobs"),
        ("https://evil.test/console/jobs", "/console/jobs"),
        ("//evil.test/console/", "/console/jobs"),
        ("/console//evil.test", "/console/jobs"),
        ("/console/..\\evil", "/console/jobs"),
        ("/v1/files", "/console/jobs"),
    ],
)
def test_signing_in_leads_to_pages_of_the_console_only(asked: str, led_to: str) -> None:
    assert own_page(asked) == led_to


def test_a_page_loads_nothing_from_elsewhere_and_is_kept_nowhere(world: World) -> None:
    for answer in (world.person().get("jobs"), httpx.get(f"{world.url}/console/sign-in")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert "style=" not in answer.text
        assert "onclick" not in answer.text


def test_changes_in_the_console_are_in_the_audit_log(world: World) -> None:
    person = world.person("audited", "member")
    file = person.upload(world.project.dataset(rows=130, name="audited.jsonl"))
    assert person.send(f"files/{file}/delete").status_code == 303
    assert person.get("keys").status_code == 403
    entries = [(each.method, each.path, each.status) for each in api.audit("audited", access=world.access)]
    assert entries == [
        ("POST", "/console/sign-in", 303),
        ("POST", "/console/files", 303),
        ("POST", f"/console/files/{file}/delete", 303),
        ("GET", "/console/keys", 403),
    ]
