"""Every address of the specification, asked as every role."""

import re

import httpx
from fastapi import FastAPI

from docs.site.build import ROOT
from ft_assets import api
from tests.described_answers import description_of
from tests.server.conftest import Asker
from tests.server.test_description import OPENAIS

ROLES: tuple[api.Role, ...] = ("viewer", "member", "promoter", "admin")
CONTENT = "GET /v1/files/{file_id}/content"
# Address and the least role that may ask; "" asks for no key, but for a signature.
SPECIFIED: dict[tuple[str, str], api.Role | str] = {
    ("get", "/v1/fine-tuning/jobs"): "viewer",
    ("post", "/v1/fine-tuning/jobs"): "member",
    ("get", "/v1/fine-tuning/jobs/{job_id}"): "viewer",
    ("post", "/v1/fine-tuning/jobs/{job_id}/cancel"): "member",
    ("post", "/v1/fine-tuning/jobs/{job_id}/resume"): "member",
    ("post", "/v1/jobs"): "member",
    ("get", "/v1/jobs/{job_id}"): "viewer",
    ("get", "/v1/datasets"): "viewer",
    ("post", "/v1/datasets"): "member",
    ("get", "/v1/datasets/{dataset_id}"): "viewer",
    ("post", "/v1/datasets/{dataset_id}/complete"): "member",
    ("put", "/v1/datasets/{dataset_id}/content"): "",
    **{
        ("post", f"{place}/{{name}}/{does}"): "promoter"
        for place, moved in (("/v1/models", "deploy"), ("/v1/adapters", "promote"), ("/adapters", "promote"))
        for does in (moved, "rollback", "deprecate")
    },
}


def test_the_addresses_of_the_specification_and_of_openais_dialect_are_there_and_no_others(served: FastAPI) -> None:
    described = {
        (method, path)
        for path, methods in description_of(served)["paths"].items()
        for method in methods
        if not path.startswith(("/v1/ft/", "/v1/files/{file_id}/content", "/links/"))
    }
    assert described == {(method, path) for method, path, _ in OPENAIS} | SPECIFIED.keys()


def test_the_page_of_addresses_says_of_each_which_it_is_and_who_may_ask() -> None:
    page = (ROOT / "docs/reference/addresses.md").read_text()
    specified, theirs = (re.findall(r"^\| (`.*) \| (.*) \| .*\|$", part, re.M) for part in page.split("\n## ")[1:3])
    said: dict[str, str] = {}
    for cell, who in specified:
        addresses = re.findall("`([^`]*)`", cell)
        said |= zip(addresses, who.split(", ") * len(addresses), strict=False)
    assert said == {f"{method.upper()} {path}": least or "–" for (method, path), least in SPECIFIED.items()}
    listed = {each for cell, _ in theirs for each in re.findall("`([^`]*)`", cell)} - {CONTENT}
    assert listed == {f"{method.upper()} {path}" for method, path, _ in OPENAIS}


def test_every_address_refuses_each_role_below_its_own_and_whoever_has_no_key(asker: Asker, url: str) -> None:
    below = url.removesuffix("/v1")
    keys = {role: asker(role=role).headers["authorization"] for role in ROLES}
    for (method, path), least in SPECIFIED.items():
        address = f"{below}{path}".replace("{", "").replace("}", "")

        def asked(key: str, method: str = method, address: str = address) -> tuple[int, str]:
            answer = httpx.request(
                method, address, headers={"authorization": key}, json={} if method == "post" else None
            )
            return answer.status_code, answer.json()["error"]["code"] if answer.is_error else ""

        if not least:
            assert asked("")[0] == 403, path
            continue
        assert asked("")[0] == 401, (method, path)
        for role, key in keys.items():
            may = ROLES.index(role) >= [*ROLES].index(least)
            assert (asked(key)[1] != "insufficient_permissions") == may, (method, path, role)
