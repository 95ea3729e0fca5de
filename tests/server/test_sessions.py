"""Sessions of people: kept as a digest, over after a time, when ended, and with the key that proved them."""

import time
from pathlib import Path

import pytest

from ft_assets import api
from ft_resources.errors import NotIdentified
from ft_resources.store_marker import open_store
from tests.control.metering.conftest import url as database_url

__all__ = ["database_url"]
PERSON = api.Identity(tenant="acme", role="promoter", actor="ann@acme.test", proof="oidc:https://id.test/77")


@pytest.fixture
def access(database_url: str) -> api.Access:
    return api.open_access(database_url)


def test_a_session_is_found_by_its_token_of_which_only_a_digest_is_kept(access: api.Access, tmp_path: Path) -> None:
    token = access.open_session(PERSON)
    assert access.session(token) == PERSON
    for file in tmp_path.rglob("*.db*"):
        assert token.encode() not in file.read_bytes()


@pytest.mark.parametrize("wrong", ["", "A" * 43, "A" * 5000, "\0", "é" * 43])
def test_a_token_that_nobody_was_given_opens_nothing(access: api.Access, wrong: str) -> None:
    access.open_session(PERSON)
    with pytest.raises(NotIdentified, match="the session has ended"):
        access.session(wrong)


def test_an_ended_session_is_over_and_others_go_on(access: api.Access) -> None:
    ended, other = access.open_session(PERSON), access.open_session(PERSON)
    api.end_session(ended, access=access)
    with pytest.raises(NotIdentified):
        access.session(ended)
    assert access.session(other) == PERSON


def test_a_session_ends_after_twelve_hours(access: api.Access, monkeypatch: pytest.MonkeyPatch) -> None:
    token, now = access.open_session(PERSON), time.time()
    monkeypatch.setattr(time, "time", lambda: now + 12 * 3600 - 1)
    assert access.session(token) == PERSON
    monkeypatch.setattr(time, "time", lambda: now + 12 * 3600 + 1)
    with pytest.raises(NotIdentified):
        access.session(token)


def test_a_session_ends_with_the_key_that_proved_it(access: api.Access, monkeypatch: pytest.MonkeyPatch) -> None:
    revoked, text = api.create_key("acme", access=access, actor="root")
    _, short = api.create_key("acme", expires="1h", access=access, actor="root")
    first, second = (access.open_session(access.identify(each)) for each in (text, short))
    assert access.session(first).proof == f"key:{revoked.prefix}"
    api.revoke_key(revoked.prefix, access=access, actor="root")
    with pytest.raises(NotIdentified):
        access.session(first)
    assert access.session(second).tenant == "acme"
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3601)
    with pytest.raises(NotIdentified):
        access.session(second)


def test_where_tenants_are_closed_a_session_of_another_opens_nothing(
    access: api.Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store(str(tmp_path / "store"), create=True)
    token = api.open_session(PERSON, store=store, access=access)
    assert api.session(token, store=store, access=access) == PERSON
    (tmp_path / "tenants.yaml").write_text("tenants_closed: true\ntenants:\n  globex: {}\n")
    with pytest.raises(NotIdentified, match="there is no tenant 'acme'"):
        api.session(token, store=store, access=access)
    with pytest.raises(NotIdentified, match="there is no tenant 'acme'"):
        api.open_session(PERSON, store=store, access=access)
