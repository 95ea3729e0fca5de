import threading
import uuid
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from types import SimpleNamespace
from typing import Any

import pytest

from ft_assets.control.submissions import submit as submitting
from ft_assets.control.submissions.submit import submit
from ft_assets.control.submissions.user_keys import KeyConflict, check_own_key
from ft_assets.records.submissions import (
    FIRST_WISH,
    Submission,
    SubmissionStatus,
    find_outcome,
    finish,
    open_submissions,
    resubmit_key,
)
from ft_assets.settings.tenants import TenantsFile, load_tenants
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.store import Store
from ft_resources.store_layout import ROOT_FOLDERS
from ft_resources.store_marker import open_store

PAIR = {"dataset": "acme.support.v1", "recipe": "tiny.v1"}
OTHER = {"dataset": "acme.support.v2", "recipe": "tiny.v1"}


@pytest.fixture
def store(store: Store) -> Store:
    for key in ("acme.support.v1", "acme.support.v2", "globex.other.v1"):
        store.put_json(f"names/dataset/{key}.json", {})
    for key in ("tiny.v1", "acme.tiny.v1", "globex.tiny.v1"):
        store.put_json(f"names/recipe/{key}.json", {})
    return store


def ask(store: Store, key: str = "k", **changes: Any) -> tuple[Submission, bool]:
    wish = {**PAIR, "actor": "ann", "origin": "cli", "idempotency_key": key, **changes}
    return submit(store, load_tenants(), **wish)


def everything(store: Store) -> list[str]:
    return sorted(entry.path for folder in (*ROOT_FOLDERS, *store.tenants()) for entry in store.entries(folder))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"dataset": "acme.support.v2", "recipe": "tiny.v1"}, "used for acme.support.v1 with tiny.v1"),
        (
            {"dataset": "acme.support.v1", "recipe": "acme.tiny.v1"},
            "but this request is for acme.support.v1 with acme.tiny.v1",
        ),
    ],
)
def test_a_key_that_was_given_to_another_pair_is_a_conflict_and_nothing_is_recorded(store, other, words) -> None:
    first, _ = ask(store, "release-7")
    before = everything(store)
    with pytest.raises(KeyConflict, match=words) as refused:
        ask(store, "release-7", **other)
    assert first.id in refused.value.remedy
    assert everything(store) == before
    # Also when the first one has ended, and the first wish is still what it was.
    finish(store, first, SubmissionStatus.FAILED, reason="boom")
    with pytest.raises(KeyConflict):
        ask(store, "release-7", **other)
    assert ask(store, "release-7") == (first, False)


def test_a_key_with_other_gates_is_a_conflict_and_with_the_same_in_another_order_it_is_not(store, monkeypatch) -> None:
    # Which gates a recipe may have is looked at elsewhere.
    monkeypatch.setattr(submitting, "get_recipe", lambda *_: SimpleNamespace(recipe=None))
    monkeypatch.setattr(submitting, "check_gates", lambda *_: None)

    def wish(*gates: str) -> tuple[Submission, bool]:
        return ask(store, "release-7", gates=gates)

    first, _ = wish("a > 0.5", "b > 0.5")
    assert wish("b > 0.5", "a > 0.5") == (first, False)
    for gates in ([], ["a > 0.6", "b > 0.5"]):
        with pytest.raises(KeyConflict, match=r"the gates a > 0\.5, b > 0\.5"):
            wish(*gates)


def test_a_key_is_one_tenants(store: Store) -> None:
    ask(store, "release-7")
    pair = {"dataset": "globex.other.v1", "recipe": "tiny.v1"}
    assert ask(store, "release-7", **pair)[1]


@pytest.mark.parametrize("key", ["", FIRST_WISH, "ask-12", "base-bump", f"run-{uuid.UUID(int=7)}"])
def test_the_platforms_own_keys_are_many_pairs_and_no_users(store: Store, key: str) -> None:
    ask(store, key)
    assert ask(store, key, **OTHER)[1]
    assert "submission_keys" not in store.folders("acme")
    if key:
        with pytest.raises(UserError, match="the platform itself"):
            check_own_key(key)


@pytest.mark.parametrize("key", ["ask-me", "run-42", "base-bump-3", "a/../b\n", "ä" * 3000])
def test_keys_that_only_look_like_those_are_users(store: Store, key: str) -> None:
    check_own_key(key)
    first, _ = ask(store, key)
    assert ask(store, key) == (first, False)
    with pytest.raises(KeyConflict):
        ask(store, key, **OTHER)


def asked_for(wish: tuple[str, dict[str, str], str]) -> str:
    """The submission's id; "" where the key was somebody else's."""
    url, pair, key = wish
    try:
        return ask(open_store(url), key, **pair)[0].id
    except KeyConflict:
        return ""


@pytest.mark.long
@pytest.mark.subprocess
def test_of_two_processes_that_ask_at_once_for_different_things_under_one_key_exactly_one_gets_it(store) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for turn in range(5):
            wishes = [(store.url, wish, f"release-{turn}") for wish in (PAIR, OTHER)]
            assert sorted(map(bool, pool.map(asked_for, wishes))) == [False, True]
    assert len(list(open_submissions(store))) == 5


def test_of_two_who_both_saw_the_key_free_exactly_one_gets_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    barrier, admit = threading.Barrier(2), submitting.admit_submission

    def together(store: Store, tenants: TenantsFile, submission: Submission) -> list[str]:
        # Both have looked by now, and neither has written.
        barrier.wait(timeout=600)
        return admit(store, tenants, submission)

    monkeypatch.setattr(submitting, "admit_submission", together)
    with ThreadPoolExecutor(2) as pool:
        ids = list(pool.map(asked_for, [(store.url, wish, "release-7") for wish in (PAIR, OTHER)]))
    assert sorted(map(bool, ids)) == [False, True]
    (only,) = open_submissions(store)
    assert {only.id, ""} == set(ids)


def test_of_many_who_ask_at_once_all_who_want_what_the_key_was_given_to_get_the_same(store: Store) -> None:
    barrier = threading.Barrier(8)

    def race(number: int) -> str:
        barrier.wait(timeout=600)
        return asked_for((store.url, (PAIR, OTHER)[number % 2], "release-7"))

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(race, range(8)))
    (only,) = open_submissions(store)
    first = 0 if only.dataset == PAIR["dataset"] else 1
    assert [number for number, found in enumerate(ids) if found] == list(range(first, 8, 2))
    assert set(ids) == {"", only.id}


def test_a_key_whose_maker_died_before_its_submission_was_recorded_is_taken_up_by_the_same_wish_only(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(submitting, "note_training", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ask(store, "release-7")
    assert list(open_submissions(store)) == []
    with pytest.raises(KeyConflict):
        ask(store, "release-7", **OTHER)
    assert ask(store, "release-7")[1]


def test_a_wish_that_was_refused_leaves_its_key_free(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> list[str]:
        raise UserError("there is no quota left")

    with monkeypatch.context() as patch:
        patch.setattr(submitting, "admit_submission", refuse)
        with pytest.raises(UserError, match="quota"):
            ask(store, "release-7")
    assert ask(store, "release-7", **OTHER)[1]


def test_a_record_of_a_key_that_cannot_be_read_says_where_it_is(store: Store) -> None:
    ask(store, "release-7")
    (entry,) = store.entries("acme/submission_keys")
    store.put(entry.path, b'{"key": 3}')
    with pytest.raises(CorruptArtifact) as broken:
        ask(store, "release-7", **OTHER)
    assert broken.value.where == entry.path


def test_asking_again_joins_the_open_submission_and_follows_an_ended_one(store: Store) -> None:
    key = resubmit_key(store, **PAIR)
    first, _ = ask(store, key)
    assert resubmit_key(store, **PAIR) == key
    finish(store, first, SubmissionStatus.FAILED, reason="boom")
    second, created = ask(store, resubmit_key(store, **PAIR))
    assert created
    assert second.id != first.id


def test_the_first_word_on_the_end_stands_and_a_marker_without_a_record_is_ignored(store: Store) -> None:
    submission, _ = ask(store)
    finish(store, submission, SubmissionStatus.ACCEPTED, adapter="acme/adapter/f")
    again = finish(store, submission, SubmissionStatus.FAILED, reason="late")
    assert again.status is SubmissionStatus.ACCEPTED
    assert find_outcome(store, submission) == again
    assert list(open_submissions(store)) == []
    store.put_json("open_submissions/acme/0123.json", {})
    assert list(open_submissions(store)) == []


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        ({"dataset": "acme.nothing.v1", "recipe": "tiny.v1"}, "there is no dataset"),
        ({"dataset": "acme.support.v1", "recipe": "other.v1"}, "there is no recipe"),
        ({"dataset": "acme.support.v1", "recipe": "globex.tiny.v1"}, "belongs to tenant 'globex'"),
        ({"dataset": "acme.support|x.v1", "recipe": "tiny.v1"}, "cannot be part of a dataset key"),
    ],
)
def test_a_senseless_wish_is_refused_and_leaves_no_trace(store: Store, pair: dict, words: str) -> None:
    before = sorted(entry.path for root in ("names",) for entry in store.entries(root))
    with pytest.raises(UserError, match=words):
        ask(store, "", **pair)
    assert store.root_folders() == ["names"]
    assert sorted(entry.path for entry in store.entries("names")) == before
