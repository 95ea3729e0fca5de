"""The list of submissions, from a store that takes its time to answer."""

import threading
from pathlib import Path

import pytest

from ft_assets import api
from ft_assets.control.submissions.submit import submit
from ft_assets.records.submissions import SubmissionStatus, finish
from ft_assets.settings.tenants import TenantsFile
from ft_resources.artifacts import Artifacts
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from tests.made import add_recipe, name_version, upload


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Nine submissions of three tenants that were rejected, the last one first in a list."""
    store = open_store(str(tmp_path / "store"), create=True)
    add_recipe(store, "r.v1")
    for number in range(9):
        tenant = f"t{number % 3}"
        dataset = f"{tenant}.d{number}.v1"
        name_version(store, dataset, upload(Artifacts(store), tenant, str(number).encode()))
        one, _ = submit(store, TenantsFile(), dataset=dataset, recipe="r.v1", actor="ann", origin="cli")
        finish(store, one, SubmissionStatus.REJECTED, reason="task_gain")
    return store


def test_all_tenants_or_one_are_listed_newest_first(store: Store) -> None:
    listed = [status.dataset for status in api.list_submissions(store=store)]
    assert listed == [f"t{number % 3}.d{number}.v1" for number in reversed(range(9))]
    of_one = [status.dataset for status in api.list_submissions(tenant="t1", store=store)]
    assert of_one == ["t1.d7.v1", "t1.d4.v1", "t1.d1.v1"]
    assert api.list_submissions(tenant="nobody", store=store) == []


def test_a_bucket_is_asked_for_several_submissions_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 of them, read one after the other at 20 ms each, would take seven minutes."""
    meet, get = threading.Barrier(9), Store.get

    def slow(self: Store, path: str) -> bytes:
        if path.endswith("/outcome.json"):
            meet.wait(timeout=30.0)
        return get(self, path)

    monkeypatch.setattr(Store, "get", slow)
    assert {status.state for status in api.list_submissions(store=store)} == {"rejected"}
