"""What a cluster asks a server: whether it lives, and whether requests may be sent to it."""

import asyncio
import logging
import threading
from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from ft_assets import api
from ft_assets.server.health import Readiness
from ft_resources.errors import DatabaseUnavailable, StoreUnavailable
from tests.e2e.project import Project
from tests.server.conftest import access as access
from tests.server.conftest import served as served


@pytest.fixture
def kubelet(served: FastAPI) -> Iterator[TestClient]:
    with TestClient(served) as client:
        yield client


def test_a_server_whose_store_and_database_answer_is_ready_and_asks_for_no_key(kubelet: TestClient) -> None:
    assert kubelet.get("/healthz").text == "ok\n"
    ready = kubelet.get("/readyz")
    assert (ready.status_code, ready.json()) == (200, {"ready": True, "missing": []})


@pytest.mark.parametrize("lost", ["store", "database"])
def test_a_server_without_its_store_or_database_lives_and_is_not_ready_and_tells_nothing_of_them(
    lost: str,
    kubelet: TestClient,
    project: Project,
    access: api.Access,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def no_store(path: str) -> bool:
        raise StoreUnavailable("the store refused", where="s3://secret-bucket", remedy="Show AKIA0000.")

    def no_database() -> None:
        raise DatabaseUnavailable("postgresql://user:password@host does not answer")

    if lost == "store":
        monkeypatch.setattr(type(project.store), "exists", lambda _, path: no_store(path))
    else:
        monkeypatch.setattr(access._database, "connect", no_database)
    with caplog.at_level(logging.WARNING):
        answer = kubelet.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"ready": False, "missing": [lost]})
    assert kubelet.get("/healthz").status_code == 200
    # The operator's log says why.
    assert ("secret-bucket" if lost == "store" else "password@host") in caplog.text


def test_an_empty_place_where_the_store_was_is_not_ready(kubelet: TestClient, project: Project) -> None:
    project.store.delete("store.json")
    assert kubelet.get("/readyz").json()["missing"] == ["store"]


def test_the_access_database_says_whether_it_answers(access: api.Access, monkeypatch: pytest.MonkeyPatch) -> None:
    access.check()
    access._database._engine.dispose()
    monkeypatch.setattr(access._database._engine, "connect", _refuse)
    with pytest.raises(DatabaseUnavailable):
        access.check()


def _refuse() -> None:
    import sqlalchemy as sa

    raise sa.exc.OperationalError("connect", {}, Exception("refused"))


def test_what_hangs_is_missing_in_time_and_is_asked_once_however_often_somebody_looks() -> None:
    released, asked = threading.Event(), list[str]()

    def hangs() -> None:
        asked.append("slow")
        released.wait()

    async def look() -> None:
        readiness = Readiness({"slow": hangs, "quick": lambda: asked.append("quick")}, limit_s=0.05, keep_s=3600)
        while "quick" in await readiness.missing():
            pass
        for _ in range(5):
            assert await readiness.missing() == ["slow"]
        assert sorted(asked) == ["quick", "slow"]
        released.set()
        while await readiness.missing():
            pass

    asyncio.run(look())
    assert sorted(asked) == ["quick", "slow"]


@pytest.mark.parametrize(("keep_s", "said"), [(3600.0, [["store"]] * 3), (-1.0, [["store"], [], []])])
def test_what_a_look_said_counts_for_its_time_and_not_longer(keep_s: float, said: list[list[str]]) -> None:
    answers = iter([StoreUnavailable("away"), None, None])

    def check() -> None:
        if error := next(answers):
            raise error

    async def look() -> list[list[str]]:
        readiness = Readiness({"store": check}, keep_s=keep_s)
        return [await readiness.missing() for _ in range(3)]

    assert asyncio.run(look()) == said
