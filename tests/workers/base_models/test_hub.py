"""The fake hub and the real client fulfil the same contract; the real one talks to a small server over HTTP."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from ft_assets.workers.base_models.lock import lock_hub
from ft_resources.canonical import sha256_file
from ft_resources.errors import BadBase, StoreUnavailable, UserError
from ft_resources.hub import Hub, HubUnavailable, HuggingFaceHub, git_blob_id, verify_file
from tests.fake_hub import FakeHub, hub_by

REPO = "org/tiny"


@pytest.fixture
def fake() -> FakeHub:
    return FakeHub()


@pytest.fixture(params=["fake", "http"])
def hub(request: pytest.FixtureRequest, fake: FakeHub) -> Iterator[Hub]:
    with hub_by(request.param, fake) as hub:
        yield hub


def test_a_branch_is_resolved_to_its_commit_and_files(hub: Hub, fake: FakeHub, base: Path) -> None:
    commit = fake.commit(REPO, base)
    snapshot = hub.snapshot(REPO, "main")
    assert snapshot == hub.snapshot(REPO, commit)
    assert snapshot.commit == commit
    assert set(snapshot.files) == {path.name for path in base.iterdir()}
    assert snapshot.files["model.safetensors"].sha256 == sha256_file(base / "model.safetensors")
    assert snapshot.files["config.json"].sha256 is None
    assert snapshot.files["config.json"].blob_id == git_blob_id(base / "config.json")


def test_a_downloaded_file_is_alone_in_its_folder_and_verifies(
    hub: Hub, fake: FakeHub, base: Path, tmp_path: Path
) -> None:
    commit = fake.commit(REPO, base)
    for name, file in hub.snapshot(REPO, "main").files.items():
        hub.download(REPO, commit, name, tmp_path / "out" / name)
        verify_file(tmp_path / "out" / name, file, "here")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {path.name for path in base.iterdir()}


def test_a_commit_stays_what_it_was_when_the_branch_moves(hub: Hub, fake: FakeHub, base: Path, tmp_path: Path) -> None:
    commit = fake.commit(REPO, base)
    before = (base / "config.json").read_bytes()
    (base / "config.json").write_text("{}")
    assert fake.commit(REPO, base) != commit
    hub.download(REPO, commit, "config.json", tmp_path / "config.json")
    assert (tmp_path / "config.json").read_bytes() == before


@pytest.mark.parametrize(("repo", "revision"), [("org/none", "main"), (REPO, "nowhere")])
def test_what_the_hub_does_not_have_is_the_users_mistake(
    hub: Hub, fake: FakeHub, base: Path, repo: str, revision: str
) -> None:
    fake.commit(REPO, base)
    with pytest.raises(BadBase) as caught:
        hub.snapshot(repo, revision)
    assert caught.value.where == f"hub:{repo}@{revision}"
    assert caught.value.remedy


def test_a_missing_file_is_the_users_mistake(hub: Hub, fake: FakeHub, base: Path, tmp_path: Path) -> None:
    commit = fake.commit(REPO, base)
    with pytest.raises(BadBase):
        hub.download(REPO, commit, "nothing.json", tmp_path / "nothing.json")
    assert not (tmp_path / "nothing.json").exists()


def test_a_base_is_locked_alike_through_either(hub: Hub, fake: FakeHub, base: Path) -> None:
    fake.commit(REPO, base)
    assert lock_hub(hub, REPO, "main", template_given=False) == lock_hub(fake, REPO, "main", template_given=False)


def test_a_hub_that_cannot_be_reached_may_be_tried_again() -> None:
    with pytest.raises(HubUnavailable, match="Check the network"):
        HuggingFaceHub("http://127.0.0.1:9").snapshot(REPO, "main")


@pytest.mark.parametrize(
    ("status", "code", "kind", "what"),
    [
        (400, "", BadBase, "does not take this request"),
        (401, "GatedRepo", BadBase, "is gated"),
        (401, "RepoNotFound", BadBase, "or it is private"),
        (403, "GatedRepo", BadBase, "is gated"),
        (403, "", BadBase, "may not read this"),
        (404, "", BadBase, "nothing at this address"),
        (404, "RepoNotFound", BadBase, "or it is private"),
        (404, "RevisionNotFound", BadBase, "no such revision"),
        (410, "", BadBase, "no more"),
        (429, "", HubUnavailable, "fewer requests"),
        (451, "", BadBase, "may not give this out"),
        (500, "", HubUnavailable, "cannot be used"),
        (503, "", HubUnavailable, "cannot be used"),
    ],
)
def test_each_refusal_of_the_hub_is_told_as_what_it_is(
    fake: FakeHub, base: Path, status: int, code: str, kind: type[UserError], what: str
) -> None:
    fake.commit(REPO, base)
    fake.refusal = (status, code)
    with hub_by("http", fake) as hub, pytest.raises(UserError, match=what) as caught:
        hub.snapshot(REPO, "main")
    assert type(caught.value) is kind
    assert caught.value.remedy


def test_a_disk_that_takes_no_more_is_no_fault_of_the_hub(
    fake: FakeHub, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = fake.commit(REPO, base)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("ft_resources.hub.shutil.move", full)
    with hub_by("http", fake) as hub, pytest.raises(StoreUnavailable, match="No space left") as caught:
        hub.download(REPO, commit, "config.json", tmp_path / "config.json")
    assert not isinstance(caught.value, HubUnavailable)


def test_changed_bytes_do_not_verify(fake: FakeHub, base: Path) -> None:
    fake.commit(REPO, base)
    for name, file in fake.snapshot(REPO, "main").files.items():
        (base / name).write_bytes((base / name).read_bytes() + b"?")
        with pytest.raises(BadBase, match=name):
            verify_file(base / name, file, "here")
