"""Two creations of a job at the same moment, of which one comes second."""

from collections.abc import Callable
from typing import Any

import pytest

from ft_assets import api
from ft_assets.records.jobs import unsettled_jobs
from ft_resources.errors import KeyTaken
from ft_resources.store import Store
from tests.e2e.project import Project
from tests.server.conftest import Client, upload


class Second(Store):
    """A store in which ``first`` happens just before a key is written."""

    def __init__(self, store: Store, first: Callable[[], object]) -> None:
        super().__init__(store.url, layout=store.layout)
        self._first = first

    def create(self, path: str, data: bytes) -> bool:
        if "/job_keys/" in path:
            self._first()
        return super().create(path, data)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, project: Project, client: Client) -> dict[str, Any]:
    """A request for a job; the server settles none."""
    monkeypatch.setattr("ft_assets.server.settling.Settling._look", lambda self: None)
    file = upload(client(), project.dataset()).removeprefix("file-")
    return {"model": "tiny", "training_file": file, "seed": 1}


@pytest.mark.parametrize("key", ["", "k"])
def test_the_same_request_twice_is_one_job_with_one_marker(project: Project, asked: dict[str, Any], key: str) -> None:
    made: list[str] = []

    def first() -> None:
        made.append(api.create_job("acme", asked, actor="ann", key=key, store=project.store)[0].id)

    job, created = api.create_job("acme", asked, actor="ann", key=key, store=Second(project.store, first))
    assert ([job.id], created) == (made, False)
    assert unsettled_jobs(project.store) == [("acme", job.id)]


def test_who_comes_second_with_anothers_key_leaves_nothing(project: Project, asked: dict[str, Any]) -> None:
    made: list[str] = []

    def first() -> None:
        made.append(api.create_job("acme", {**asked, "seed": 2}, actor="ann", key="k", store=project.store)[0].id)

    with pytest.raises(KeyTaken):
        api.create_job("acme", asked, actor="bob", key="k", store=Second(project.store, first))
    assert unsettled_jobs(project.store) == [("acme", made[0])]
