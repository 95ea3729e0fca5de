"""API keys: shown once, kept as a digest, refused at once when revoked; on SQLite and on PostgreSQL."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from ft_assets import api
from ft_assets.control.access.tables import metadata
from ft_assets.control.metering.ledger import Ledger
from ft_resources.errors import CorruptArtifact, NotIdentified, NotPermitted, UserError
from tests.control.metering.conftest import url as database_url
from tests.e2e.project import Project
from tests.server.conftest import Client, upload

__all__ = ["database_url"]


@pytest.fixture
def keys(database_url: str) -> api.Access:
    return api.open_access(database_url)


def test_a_key_is_kept_as_a_digest_only(keys: api.Access, tmp_path: Path) -> None:
    key, text = api.create_key("acme", name="ci", access=keys, actor="root")
    assert text.startswith(f"ft-{key.prefix}-")
    (listed,) = api.list_keys("acme", access=keys)
    assert (listed, listed.state, listed.created_by) == (key, "valid", "root")
    secret = text.removeprefix(f"ft-{key.prefix}-")  # it may have a dash of its own
    for file in tmp_path.rglob("*.db*"):
        assert secret.encode() not in file.read_bytes()
    asker = api.Identity(tenant="acme", role="member", actor=f"ci (key {key.prefix})", proof=f"key:{key.prefix}")
    assert keys.identify(text) == asker


def test_the_root_of_a_key_is_the_person_of_its_tenant_above_all_its_makers(keys: api.Access) -> None:
    def made(actor: str, tenant: str = "acme", role: api.Role = "promoter") -> api.Identity:
        return keys.identify(api.create_key(tenant, role=role, name="n", access=keys, actor=actor)[1])

    def root(identity: api.Identity) -> str:
        return api.maker_of(identity, access=keys)

    ann, ops = made("root"), made("root", "shared", "platform")
    kim = api.Identity(tenant="acme", role="admin", actor="kim@acme.example", proof="oidc:https://idp/kim")
    child = made(ann.maker)
    grandchild, of_kim, of_ops = made(child.maker), made(kim.maker), made(ops.maker)
    api.revoke_key(child.proof.removeprefix("key:"), access=keys, actor="root")
    assert [root(each) for each in (child, grandchild, made(of_kim.maker))] == [ann.actor, ann.actor, kim.maker]
    # What an operator makes is the key of whom it is given to.
    assert [root(each) for each in (ann, of_ops, made(of_ops.maker), kim)] == ["root", "n", of_ops.actor, ""]


def test_a_revoked_key_is_refused_at_once_and_its_end_is_on_record(keys: api.Access) -> None:
    key, text = api.create_key("acme", access=keys, actor="root")
    assert api.revoke_key(text, access=keys, actor="bea").revoked_by == "bea"
    assert api.revoke_key(key.prefix, access=keys, actor="zoe").revoked_by == "bea"
    with pytest.raises(NotIdentified, match="is revoked"):
        keys.identify(text)
    with pytest.raises(UserError, match="there is no API key"):
        api.revoke_key("nothing", access=keys, actor="bea")


def test_an_expired_key_is_refused(keys: api.Access, monkeypatch: pytest.MonkeyPatch) -> None:
    _, text = api.create_key("acme", expires="2h", access=keys, actor="root")
    assert keys.identify(text).tenant == "acme"
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 7201)
    with pytest.raises(NotIdentified, match="is expired"):
        keys.identify(text)


def test_a_wrong_secret_says_as_little_as_an_unknown_key(keys: api.Access) -> None:
    key, text = api.create_key("acme", access=keys, actor="root")
    said = set()
    for wrong in (f"ft-{key.prefix}-{'A' * 43}", f"ft-{'a' * 12}-{'A' * 43}", text[:-1], text + "A", "sk-foreign", ""):
        with pytest.raises(NotIdentified) as caught:
            keys.identify(wrong)
        said.add(str(caught.value))
    assert len(said) == 1
    assert key.prefix not in said.pop()


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"tenant": "Acme"}, "cannot be a tenant"),
        ({"tenant": "shared"}, "is not a tenant"),
        ({"role": "root"}, "there is no role"),
        ({"expires": "soon"}, "is not a duration"),
        ({"expires": "0d"}, "is not a duration"),
        ({"name": "a\nb"}, "cannot be the name"),
        ({"name": "a" * 101}, "cannot be the name"),
    ],
)
def test_what_cannot_be_a_key_is_refused(keys: api.Access, wrong: dict[str, str], what: str) -> None:
    with pytest.raises(UserError, match=what):
        api.create_key(**{"tenant": "acme", "access": keys, "actor": "root", **wrong})
    assert api.list_keys(access=keys) == []


def test_the_migrations_make_the_tables_that_the_code_reads(database_url: str) -> None:
    # The ledger may be in the same database.
    Ledger(database_url).close()
    api.open_access(database_url).close()
    engine = sa.create_engine(database_url.replace("postgresql:", "postgresql+psycopg2:"))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": "access_version"})
        found = [change for change in compare_metadata(context, metadata) if change[0] != "remove_table"]
        assert [change for change in found if change[0] != "remove_index"] == []
    engine.dispose()


def test_a_role_may_what_the_ones_before_it_may(project: Project, client: Client) -> None:
    viewer, member = client(role="viewer"), client(role="member")
    with pytest.raises(openai.PermissionDeniedError, match="requires the role member"):
        upload(viewer, project.dataset())
    file = upload(member, project.dataset())
    assert viewer.files.retrieve(file).id == file
    job = member.fine_tuning.jobs.create(model="tiny", training_file=file)
    assert viewer.fine_tuning.jobs.retrieve(job.id).id == job.id
    with pytest.raises(openai.PermissionDeniedError):
        viewer.fine_tuning.jobs.cancel(job.id)
    with pytest.raises(openai.PermissionDeniedError, match="requires the role admin"):
        member.models.delete("ft:tiny:acme::x")
    with pytest.raises(NotPermitted):
        api.require_role("promoter", "admin")


def test_without_a_key_nothing_answers(url: str) -> None:
    for key in ("", "ft-none", "sk-proj-123"):
        nobody = openai.OpenAI(base_url=url, api_key=key or "x", max_retries=0)
        with pytest.raises(openai.AuthenticationError) as caught:
            nobody.files.list()
        assert caught.value.code == "invalid_api_key"
        assert caught.value.response.headers["www-authenticate"] == "Bearer"
        nobody.close()


def test_changes_and_refusals_are_in_the_audit_log(project: Project, client: Client, access: api.Access) -> None:
    acme, viewer = client(), client(role="viewer")
    file = upload(acme, project.dataset())
    acme.files.retrieve(file)
    with pytest.raises(openai.PermissionDeniedError):
        viewer.files.delete(file)
    with pytest.raises(openai.AuthenticationError) as caught:
        openai.OpenAI(base_url=acme.base_url, api_key="ft-wrong", max_retries=0).files.list()
    entries = api.audit("acme", access=access)
    assert [(each.method, each.path, each.status) for each in entries] == [
        ("POST", "/v1/files", 200),
        ("DELETE", f"/v1/files/{file}", 403),
    ]
    assert {each.peer for each in entries} == {"127.0.0.1"}
    assert all(each.actor.startswith("ann (key ") for each in entries)
    (nobody,) = api.audit(access=access)
    assert (nobody.path, nobody.status, nobody.request) == ("/v1/files", 401, caught.value.request_id)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE audit SET status = 200 WHERE seq = 2",
        "DELETE FROM audit WHERE seq = 2",
        "UPDATE audit SET seq = 9 WHERE seq = 3",
    ],
)
def test_a_changed_audit_log_is_found(keys: api.Access, database_url: str, change: str) -> None:
    asked = api.ApiRequest(tenant="acme", actor="a", peer="p", method="POST", path="/v1/x", status=403, request="r")
    for _ in range(3):
        keys.note(asked)
    assert [each.seq for each in api.audit("acme", access=keys)] == [1, 2, 3]
    engine = sa.create_engine(database_url.replace("postgresql:", "postgresql+psycopg2:"))
    with engine.begin() as connection:
        connection.execute(sa.text(change))
    engine.dispose()
    with pytest.raises(CorruptArtifact, match="changed, removed or inserted"):
        api.audit("acme", access=keys)


def test_servers_that_write_at_once_take_turns(keys: api.Access) -> None:
    asked = api.ApiRequest(tenant="acme", actor="a", peer="p", method="POST", path="/v1/x", status=200, request="r")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(keys.note, [asked] * 24))
    assert [each.seq for each in api.audit("acme", access=keys)] == list(range(1, 25))


def test_where_tenants_are_closed_others_do_not_exist(
    project: Project, client: Client, access: api.Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme, globex = client(), client("globex")
    (project.folder / "tenants.yaml").write_text("tenants_closed: true\ntenants:\n  acme: {}\n")
    assert acme.files.list().data == []
    with pytest.raises(openai.AuthenticationError, match="there is no tenant 'globex'"):
        globex.files.list()
    with pytest.raises(UserError, match="there is no tenant 'globexx'"):
        api.create_key("globexx", access=access, actor="root")
    with pytest.raises(UserError, match="there is no tenant 'globex'"):
        api.add_dataset(project.dataset(), "globex.rows", store=project.store)
    with pytest.raises(UserError, match="there is no tenant 'globex'"):
        api.register_recipe(project.recipe("globex.tiny.v1"), store=project.store)
    assert api.list_datasets(store=project.store) == []
    assert api.list_recipes(store=project.store) == []
