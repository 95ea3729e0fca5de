"""Keys and the audit log over HTTP: a tenant's admin decides about its own, the platform's key about all."""

from collections.abc import Callable

import httpx
import pytest
import sqlalchemy as sa

from ft_assets import api
from ft_resources.errors import NotIdentified
from tests.e2e.project import Project
from tests.server.conftest import Asker

Http = Callable[..., httpx.Client]


@pytest.fixture
def http(asker: Asker) -> Http:
    return lambda tenant="acme", role="admin", text="": asker(tenant, role, text=text)


def test_an_admin_makes_sees_and_revokes_keys_of_its_tenant_only(http: Http, access: api.Access) -> None:
    admin = http()
    _, foreign = api.create_key("globex", access=access, actor="root")
    made = admin.post("/ft/keys", json={"role": "member", "name": "ci", "expires": "90d"}).json()
    assert (made["tenant"], made["role"], made["name"], made["state"]) == ("acme", "member", "ci", "valid")
    assert made["created_by"].startswith("bea (key ")
    member = http(text=made["key"])
    assert member.get("/files").status_code == 200
    listed = admin.get("/ft/keys").json()["data"]
    assert [each["name"] for each in listed] == ["ci", "bea"]
    assert not [each for each in listed if "key" in each]
    assert admin.delete(f"/ft/keys/{made['id']}").json()["state"] == "revoked"
    assert member.get("/files").status_code == 401
    for prefix in (foreign.split("-")[1], "nothing"):
        answer = admin.delete(f"/ft/keys/{prefix}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    for answer in (
        admin.post("/ft/keys", json={"tenant": "globex"}),
        admin.get("/ft/keys?tenant=globex"),
        admin.get("/ft/audit?tenant=globex"),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "insufficient_permissions")


def test_nobody_makes_a_key_that_may_more_than_its_own(http: Http) -> None:
    assert http().post("/ft/keys", json={"role": "admin"}).status_code == 200
    for wanted in ("platform", "root"):
        assert http().post("/ft/keys", json={"role": wanted}).status_code in (400, 403)
    promoter = http(role="promoter")
    calls = [("POST", "/ft/keys", {"role": "viewer"}), ("GET", "/ft/keys", None), ("GET", "/ft/audit", None)]
    for method, path, body in [*calls, ("DELETE", "/ft/keys/abc", None)]:
        answer = promoter.request(method, path, json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "insufficient_permissions")


def test_the_platforms_key_makes_keys_for_all_and_does_nothing_in_a_tenants_name(
    project: Project, http: Http, access: api.Access
) -> None:
    platform = http("shared", "platform")
    made = platform.post("/ft/keys", json={"tenant": "globex", "role": "admin", "name": "zoe"}).json()
    assert made["tenant"] == "globex"
    assert http(text=made["key"]).get("/files").json()["data"] == []
    own = platform.post("/ft/keys", json={"tenant": "shared", "role": "platform", "name": "ops"}).json()
    assert (own["tenant"], own["role"]) == (None, "platform")
    assert {each["tenant"] for each in platform.get("/ft/keys").json()["data"]} == {"globex", None}
    assert [each["name"] for each in platform.get("/ft/keys?tenant=globex").json()["data"]] == ["zoe"]
    assert platform.delete(f"/ft/keys/{made['id']}").json()["state"] == "revoked"
    assert platform.post("/ft/keys", json={}).json()["error"]["message"].startswith("tenant: no tenant is named")
    for tenant, role in (("shared", "admin"), ("globex", "platform")):
        assert platform.post("/ft/keys", json={"tenant": tenant, "role": role}).status_code == 400
    for path in ("/files", "/fine_tuning/jobs", "/models", "/ft/lines", "/ft/usage"):
        answer = platform.get(path)
        assert answer.status_code == 403, path
        assert "cannot act for a tenant" in answer.json()["error"]["message"]
    _, key = api.create_key("shared", role="platform", access=access, actor="root")
    with pytest.raises(NotIdentified, match="does not belong to a tenant"):
        api.open_session(access.identify(key), store=project.store, access=access)


def test_an_admin_reads_its_tenants_audit_log_in_pages_and_a_changed_one_is_found(
    http: Http, access: api.Access
) -> None:
    admin, platform = http(), http("shared", "platform")
    for number in range(5):
        asked = api.ApiRequest(
            tenant="acme", actor="a", peer="p", method="POST", path=f"/v1/{number}", status=200, request="r"
        )
        access.note(asked)
    first = admin.get("/ft/audit?limit=2").json()
    assert ([each["path"] for each in first["data"]], first["has_more"]) == (["/v1/4", "/v1/3"], True)
    rest = admin.get(f"/ft/audit?limit=3&after={first['data'][-1]['seq']}").json()
    assert ([each["path"] for each in rest["data"]], rest["has_more"]) == (["/v1/2", "/v1/1", "/v1/0"], False)
    assert len(platform.get("/ft/audit?tenant=acme").json()["data"]) == 5
    http(text="ft-wrong").get("/files")
    assert [each["status"] for each in platform.get("/ft/audit").json()["data"]] == [401]
    with access._database.begin() as connection:
        connection.execute(sa.text("UPDATE audit SET status = 403 WHERE tenant = 'acme' AND seq = 4"))
    assert admin.get("/ft/audit?limit=3").json()["error"]["code"] == "damaged_record"
    assert admin.get("/ft/audit?limit=2&after=3").status_code == 200
