"""Sign-in of people by OpenID Connect: by a provider of somebody else's, and what a wrong answer of one is worth."""

import re
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import oidc_provider_mock
import pytest
import yaml
from joserfc.jwk import RSAKey

from ft_assets import api
from ft_assets.api import sign_in
from ft_assets.control.access import oidc, sign_ins
from ft_assets.settings.tenants import load_tenants
from ft_resources.errors import UserError
from tests.e2e.project import Project
from tests.server.identity_provider import CLIENT, SECRET, Provider, identity_provider, key_of

MEMBERS = [
    {"group": "ft-acme", "tenant": "acme", "role": "promoter"},
    {"group": "ft-acme", "tenant": "acme", "role": "viewer"},
    {"group": "ft-globex", "tenant": "globex"},
]
ANN = {"sub": "77", "email": "ann@acme.test", "email_verified": True, "groups": ["ft-acme", "all"]}


@pytest.fixture
def provider(project: Project, url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    sign_in._provider.cache_clear()
    with identity_provider() as provider:
        provider.claims = dict(ANN)
        offer(project, url, provider.url, monkeypatch)
        yield provider


@pytest.fixture
def browser(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url.removesuffix("/v1"), follow_redirects=True) as browser:
        yield browser


def offer(project: Project, url: str, issuer: str, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
    monkeypatch.setenv("FT_PUBLIC_URL", url.removesuffix("/v1"))
    monkeypatch.setenv("FT_OIDC_CLIENT_SECRET", SECRET)
    section = {"client_id": CLIENT, "name": "Example Ltd", "members": MEMBERS, "issuer": issuer, **settings}
    (project.folder / "tenants.yaml").write_text(yaml.safe_dump({"sign_in": section}))


def signed_in(browser: httpx.Client, access: api.Access) -> api.Identity:
    return access.session(browser.cookies["ft-session"])


def test_a_person_signs_in_at_a_provider_that_somebody_else_wrote(
    project: Project, url: str, browser: httpx.Client, access: api.Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    with oidc_provider_mock.run_server_in_thread() as server:
        issuer = f"http://localhost:{server.server_port}"
        offer(project, url, issuer, monkeypatch)
        httpx.put(f"{issuer}/users/77", json={name: value for name, value in ANN.items() if name != "sub"})
        page = browser.get("/console/jobs").text
        assert "Sign in with Example Ltd" in page
        (link,) = re.findall(r'href="(/console/oidc[^"]*)"', page)
        away = browser.get(link.replace("&amp;", "&"), follow_redirects=False).headers["location"]
        assert away.startswith(issuer)
        back = httpx.post(away, data={"sub": "77"}).headers["location"]
        assert browser.get(back).url.path == "/console/jobs"
    found = signed_in(browser, access)
    assert found == api.Identity(tenant="acme", role="promoter", actor="ann@acme.test", proof=f"oidc:{issuer}/77")
    (entry,) = api.audit("acme", access=access)
    assert (entry.actor, entry.path, entry.status) == ("ann@acme.test", "/console/oidc/return", 303)


def test_a_person_comes_to_the_page_that_they_wanted_and_never_to_another_site(
    provider: Provider, browser: httpx.Client
) -> None:
    assert browser.get("/console/oidc?next=/console/usage").url.path == "/console/usage"
    for elsewhere in ("https://evil.test/", "//evil.test/", "/console/../v1", "javascript:x"):
        answer = browser.get(f"/console/oidc?next={quote(elsewhere)}")
        assert (answer.url.host, answer.url.path) == ("127.0.0.1", "/console/jobs")


WRONG: dict[str, dict[str, Any]] = {
    "another sign-in's nonce": {"nonce": "another"},
    "no nonce": {"nonce": None},
    "another client's": {"aud": "another"},
    "for several, of another": {"aud": [CLIENT, "another"], "azp": "another"},
    "for several, of nobody": {"aud": [CLIENT, "another"]},
    "no audience": {"aud": None},
    "expired": {"exp": int(time.time()) - 120},
    "without an end": {"exp": None},
    "of tomorrow": {"iat": int(time.time()) + 86400},
    "a foreign issuer": {"iss": "https://evil.test"},
    "no issuer": {"iss": None},
    "of nobody": {"sub": None},
}


def test_a_token_that_is_wrong_in_one_claim_opens_nothing(provider: Provider, browser: httpx.Client) -> None:
    for name, provider.change in WRONG.items():
        answer = browser.get("/console/oidc")
        assert (answer.status_code, "ID token" in answer.text) == (401, True), name
        assert "ft-session" not in browser.cookies, name
    # The same without the change is right.
    provider.change = {}
    assert browser.get("/console/oidc").status_code == 200
    assert "ft-session" in browser.cookies


def test_an_unsigned_token_and_one_signed_by_the_public_key_open_nothing(
    provider: Provider, browser: httpx.Client
) -> None:
    for provider.sign in ("none", "HS256"):
        sent = len(provider.sent)
        assert browser.get("/console/oidc").status_code == 401
        assert len(provider.sent) == sent + 1
        assert "ft-session" not in browser.cookies


def test_a_token_of_an_unknown_key_opens_nothing_and_a_new_key_is_learnt(
    provider: Provider, browser: httpx.Client, access: api.Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "_AGAIN_S", 0.0)
    assert browser.get("/console/oidc").status_code == 200
    provider.rotate()
    browser.cookies.clear()
    assert browser.get("/console/oidc").status_code == 200
    assert signed_in(browser, access).tenant == "acme"
    browser.cookies.clear()
    # The name of a known key, and another key.
    provider.key = RSAKey.import_key({**key_of(7).as_dict(private=True), "kid": provider.key.kid})
    assert browser.get("/console/oidc").status_code == 401
    provider.key = key_of(8)
    assert browser.get("/console/oidc").status_code == 401


def test_a_return_counts_once_and_in_the_browser_that_began(
    provider: Provider, browser: httpx.Client, url: str
) -> None:
    away = browser.get("/console/oidc", follow_redirects=False).headers["location"]
    back = httpx.get(away).headers["location"]
    with httpx.Client(base_url=str(browser.base_url)) as other:
        assert other.get(back).status_code == 401
        assert "ft-session" not in other.cookies
    # Whoever tried it elsewhere has used it up.
    assert browser.get(back).status_code == 401
    away = browser.get("/console/oidc", follow_redirects=False).headers["location"]
    back = httpx.get(away).headers["location"]
    assert browser.get(back).status_code == 200
    kept = dict(browser.cookies)
    browser.cookies.clear()
    assert browser.get(back, cookies=kept | {"ft-session": "x"}).status_code == 401


def test_a_return_that_nobody_began_or_too_late_or_refused_opens_nothing(
    provider: Provider, browser: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert browser.get("/console/oidc/return?state=x&code=y").status_code == 401
    away = browser.get("/console/oidc", follow_redirects=False).headers["location"]
    state = parse_qs(urlsplit(away).query)["state"][0]
    refused = browser.get(f"/console/oidc/return?state={state}&error=access_denied")
    assert (refused.status_code, "denied the sign-in" in refused.text) == (401, True)
    back = httpx.get(browser.get("/console/oidc", follow_redirects=False).headers["location"]).headers["location"]
    assert browser.get(f"{back}&iss=https://evil.test").status_code == 401
    back = httpx.get(browser.get("/console/oidc", follow_redirects=False).headers["location"]).headers["location"]
    now = time.time()
    with monkeypatch.context() as later:
        later.setattr(sign_ins.time, "time", lambda: now + 601)
        assert browser.get(back).status_code == 401
    assert "ft-session" not in browser.cookies


def test_a_code_of_another_sign_in_is_worth_nothing(provider: Provider, browser: httpx.Client) -> None:
    first, second = (browser.get("/console/oidc", follow_redirects=False).headers["location"] for _ in range(2))
    stolen = parse_qs(urlsplit(httpx.get(first).headers["location"]).query)["code"][0]
    state = parse_qs(urlsplit(second).query)["state"][0]
    # The provider asks for the secret of the sign-in whose code it is.
    assert browser.get(f"/console/oidc/return?state={state}&code={stolen}").status_code == 401


def test_who_is_in_no_group_any_more_is_refused_at_the_next_sign_in(provider: Provider, browser: httpx.Client) -> None:
    assert browser.get("/console/oidc").status_code == 200
    browser.cookies.clear()
    for groups in (["all"], [], None, "ft-acm", {"ft-acme": True}, [["ft-acme"]]):
        provider.claims = {**ANN, "groups": groups}
        answer = browser.get("/console/oidc")
        assert answer.status_code == 403, groups
        assert "No group of ann@acme.test has access to a tenant" in answer.text
        assert "ft-session" not in browser.cookies


def test_a_person_of_several_tenants_chooses_one(provider: Provider, browser: httpx.Client, access: api.Access) -> None:
    provider.claims = {**ANN, "groups": ["ft-acme", "ft-globex"]}

    def token() -> str:
        page = browser.get("/console/oidc").text
        assert re.findall(r'value="(acme|globex)"', page) == ["acme", "globex"]
        return re.findall(r'name="token" value="([^"]+)"', page)[0]

    asked, here = token(), {"origin": str(browser.base_url).rstrip("/")}
    assert "ft-session" not in browser.cookies
    elsewhere = {"origin": "https://evil.test"}
    sent = {"token": asked, "tenant": "globex"}
    assert browser.post("/console/oidc/tenant", data=sent, headers=elsewhere).status_code == 403
    assert browser.post("/console/oidc/tenant", data=sent, headers=here).status_code == 200
    found = signed_in(browser, access)
    assert (found.tenant, found.role) == ("globex", "member")
    browser.cookies.clear()
    again = browser.post("/console/oidc/tenant", data=sent, headers=here)
    assert again.status_code == 401
    browser.cookies.clear()
    assert (
        browser.post("/console/oidc/tenant", data={"token": token(), "tenant": "initech"}, headers=here).status_code
        == 401
    )
    assert "ft-session" not in browser.cookies


def test_an_address_that_nobody_checked_is_not_a_name(
    provider: Provider, browser: httpx.Client, access: api.Access
) -> None:
    for change in ({"email_verified": False}, {"email_verified": None}, {"email_verified": "true"}):
        provider.change = change
        assert browser.get("/console/oidc").status_code == 200
        assert signed_in(browser, access).actor == "77"
        browser.cookies.clear()


def test_a_provider_that_is_away_or_another_one_is_told_to_the_operator_only(
    project: Project, url: str, browser: httpx.Client, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for issuer in ("http://127.0.0.1:9", f"{provider.url}/other", provider.url.replace("127.0.0.1", "localhost")):
        offer(project, url, issuer, monkeypatch)
        answer = browser.get("/console/oidc")
        assert answer.status_code == 503
        assert issuer not in answer.text
    offer(project, url, provider.url, monkeypatch)
    monkeypatch.delenv("FT_OIDC_CLIENT_SECRET")
    assert browser.get("/console/oidc").status_code == 503


def test_without_a_provider_the_page_offers_none(browser: httpx.Client) -> None:
    assert "Sign in with" not in browser.get("/console/sign-in").text
    assert browser.get("/console/oidc").status_code == 503


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"issuer": "http://id.example.com"}, "issuer"),
        ({"issuer": "https://id.example.com/?x=1"}, "issuer"),
        ({"scopes": ["email"]}, "openid"),
        ({"members": [{"group": "a", "tenant": "Acme"}]}, "tenant"),
        ({"members": [{"group": "a", "tenant": "acme", "role": "platform"}]}, "role"),
    ],
)
def test_settings_that_cannot_work_are_refused_when_they_are_read(
    project: Project, change: dict[str, Any], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"issuer": "https://id.example.com", **change}
    offer(project, "http://x/v1", given.pop("issuer"), monkeypatch, **given)
    with pytest.raises(UserError, match=what):
        load_tenants()
