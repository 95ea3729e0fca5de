import threading
from pathlib import Path

import pytest

from ft_assets.submissions.record import (
    SubmissionStatus,
    find_outcome,
    finish,
    open_submissions,
    resubmit_key,
    submit,
)
from ft_resources.errors import UserError
from ft_resources.store import Store

PAIR = {"dataset": "acme.support.v1", "recipe": "tiny.v1"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(str(tmp_path / "store"))
    store.put_json("names/dataset/acme.support.v1.json", {})
    store.put_json("names/recipe/tiny.v1.json", {})
    store.put_json("names/recipe/globex.tiny.v1.json", {})
    return store


def ask(store: Store, key: str = "k"):
    return submit(store, **PAIR, actor="ann", origin="python", idempotency_key=key)


def test_the_same_key_is_the_same_submission_also_when_asked_at_once(store: Store) -> None:
    barrier = threading.Barrier(6)
    results = []

    def race() -> None:
        barrier.wait()
        results.append(ask(store))

    threads = [threading.Thread(target=race) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({submission.id for submission, _ in results}) == 1
    assert sum(created for _, created in results) == 1
    assert len(list(open_submissions(store))) == 1


def test_asking_again_joins_the_open_submission_and_follows_an_ended_one(store: Store) -> None:
    key = resubmit_key(store, **PAIR)
    first, _ = ask(store, key)
    assert resubmit_key(store, **PAIR) == key
    finish(store, first, SubmissionStatus.FAILED, reason="boom")
    second, created = ask(store, resubmit_key(store, **PAIR))
    assert created
    assert second.id != first.id


def test_the_first_word_on_the_end_stands(store: Store) -> None:
    submission, _ = ask(store)
    finish(store, submission, SubmissionStatus.ACCEPTED, adapter="acme/adapter/f")
    again = finish(store, submission, SubmissionStatus.FAILED, reason="late")
    assert again.status is SubmissionStatus.ACCEPTED
    assert find_outcome(store, submission) == again
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
        submit(store, **pair, actor="ann", origin="ui")
    assert store.folders() == ["names"]
    assert sorted(entry.path for entry in store.entries("names")) == before


def test_a_marker_without_a_record_is_ignored(store: Store) -> None:
    store.put_json("open_submissions/acme/0123.json", {})
    assert list(open_submissions(store)) == []
