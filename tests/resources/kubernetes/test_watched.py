"""What those who follow Jobs of a namespace see, with an API that says what a test wants, and on a cluster."""

import gc
import json
import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ft_resources.kubernetes import names
from ft_resources.kubernetes import watched as module
from ft_resources.kubernetes.api import Api
from ft_resources.kubernetes.watched import JobWatch, WatchedNamespace
from tests.cluster.fixtures import Access, cluster, until
from tests.resources.kubernetes.connections import Answer, client_over
from tests.resources.kubernetes.streams import Stream, Told, job_at

__all__ = ["cluster"]
ALL = {"labelSelector": names.MANAGED}


def watched_by(api: Any) -> WatchedNamespace:
    return WatchedNamespace(api, "ft-acme")


def telling() -> tuple[Told, "queue.SimpleQueue[dict[str, Any] | None]"]:
    """An API and the events that it tells; None ends its stream."""
    told: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    return Told(lambda _: iter(told.get, None), wake=lambda: told.put(None)), told


def following(*names: str) -> tuple[Told, "queue.SimpleQueue[dict[str, Any] | None]", WatchedNamespace, list[JobWatch]]:
    """An API with the Jobs ``a``, ``b`` and ``c``, its events, and who follows these Jobs by one watch."""
    api, told = telling()
    api.jobs = [job_at(1, name=name) for name in "abc"]
    watched = watched_by(api)
    watches = [watched.follow(name) for name in names]
    until(lambda: api.open and all(each.answered for each in watches))
    return api, told, watched, watches


def make_jobs(cluster: Access, jobs: str) -> WatchedNamespace:
    """Suspended Jobs of the platform, a letter each."""
    key, _, value = names.MANAGED.partition("=")
    for name in jobs:
        cluster.run(name, "", suspend=True, labels={key: value})
    return WatchedNamespace(Api(client=cluster.client(retries=0)), cluster.namespace)


def label(cluster: Access, job: str) -> None:
    cluster.batch.patch_namespaced_job(job, cluster.namespace, {"metadata": {"labels": {"x": "y"}}})


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that are waited between two streams, which pass at once."""
    found: list[float] = []
    monkeypatch.setattr(WatchedNamespace, "_pause", lambda _, seconds: not found.append(seconds))
    return found


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(module, "_LONGEST_WAIT_S", 0.02)


def test_a_stream_that_ends_in_silence_leads_to_a_new_look(quick: None) -> None:
    """A server restored from a backup has nothing newer than the version asked for, and says so by saying nothing."""
    api = Told(lambda _: iter(()))
    following = watched_by(api).follow("j")
    until(lambda: len(api.asked) > 2)
    api.jobs = [job_at(2, condition="Complete")]
    until(lambda: following.job == api.jobs[0])


def test_a_stream_that_told_something_goes_on_behind_it(quick: None) -> None:
    news = iter(range(8, 12))

    def stream(_: str) -> Iterator[dict[str, Any]]:
        yield {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(next(news, 12))}}}

    api = Told(stream)
    following = watched_by(api).follow("j")
    until(lambda: len(api.asked) > 4)
    following.close()
    assert api.asked[:5] == ["list", "7", "8", "9", "10"]


@pytest.mark.parametrize("code", [410, 500, 504])
def test_a_server_that_tells_nothing_but_errors_is_asked_ever_more_seldom(code: int, waits: list[float]) -> None:
    def stream(_: str) -> Iterator[dict[str, Any]]:
        raise module.ApiRefusal(code, "Expired", "too old resource version")
        yield

    api = Told(stream)
    watched = watched_by(api)
    following = watched.follow("j")
    until(lambda: len(waits) > 8)
    following.close()
    until(lambda: watched._thread is None)
    assert max(waits) == module._LONGEST_WAIT_S
    assert waits[:8] == sorted(waits[:8])
    assert api.asked.count("list") >= len(waits) - 1, "each error leads to a new look"


def test_many_jobs_have_one_watch_and_an_event_reaches_its_follower_alone() -> None:
    api, told = telling()
    api.jobs = [job_at(1, name=f"j{number}") for number in range(200)]
    watched = watched_by(api)
    following = [watched.follow(f"j{number}") for number in range(200)]
    assert all(each.wait_answer(600.0) for each in following)
    until(lambda: api.open)
    assert [query for _, query in api.open] == [ALL]
    assert api.asked.count("list") <= 2, "one for the first, and one for all"
    told.put({"type": "MODIFIED", "object": job_at(8, name="j7", active=1)})
    until(lambda: following[7].job == job_at(8, name="j7", active=1))
    told.put({"type": "DELETED", "object": job_at(9, name="j8")})
    until(lambda: following[8].job is None)
    others = [each for number, each in enumerate(following) if number not in (7, 8)]
    assert all(each.job is not None and each.job["metadata"]["resourceVersion"] == "1" for each in others)
    told.put(None)


def test_a_follower_who_comes_later_learns_what_was_listed_and_told_before_him() -> None:
    api, told, watched, (first, _) = following("a", "b")
    told.put({"type": "MODIFIED", "object": job_at(8, name="c", active=1)})
    told.put({"type": "MODIFIED", "object": job_at(9, name="a", active=1)})
    until(lambda: first.job == job_at(9, name="a", active=1))
    asked = len(api.asked)
    third, missing = watched.follow("c"), watched.follow("d")
    assert third.job == job_at(8, name="c", active=1)
    assert (missing.answered, missing.job) == (True, None)
    assert len(api.asked) == asked
    told.put(None)


def test_what_ended_stays_as_it_ended_for_who_followed_it() -> None:
    """Its conditions say how it ended, and whoever waits for it may look only after it was removed."""
    _, told, _, (first, second) = following("a", "b")
    done = job_at(8, name="a", condition="Complete")
    told.put({"type": "MODIFIED", "object": done})
    told.put({"type": "DELETED", "object": job_at(9, name="a", condition="Complete")})
    told.put({"type": "MODIFIED", "object": job_at(10, name="b", active=1)})
    until(lambda: second.job == job_at(10, name="b", active=1))
    assert first.job == first.last == done
    told.put(None)


def test_the_watch_ends_with_its_last_follower_and_begins_with_the_next(cluster: Access) -> None:
    watched, watches = make_jobs(cluster, "ab"), cluster.machines.server.watches
    following = [watched.follow("a")]
    until(lambda: following[0].job and len(watches) == 1)
    following.append(watched.follow("b"))
    until(lambda: following[1].job and len(watches) == 1)
    asked = [line for _, line in cluster.machines.server.requests if "watch=true" in line]
    assert ["fieldSelector" in line for line in asked] == [True, False]
    for each in following:
        each.close()
    until(lambda: watched._thread is None and not watches)
    again = watched.follow("a")
    assert again.wait_answer(600.0)
    assert again.job is not None


def test_whoever_is_dropped_without_a_word_follows_no_more(cluster: Access) -> None:
    """A tick of a sensor looks at Jobs and waits for none."""
    watched = make_jobs(cluster, "a")
    following = watched.follow("a")
    assert following.wait_answer(600.0)
    del following
    gc.collect()
    label(cluster, "a")
    until(lambda: watched._thread is None)


def test_many_followers_outlive_a_restart_of_the_api_server(cluster: Access) -> None:
    watched = make_jobs(cluster, "abc")
    following = {name: watched.follow(name) for name in "abc"}
    until(lambda: all(each.job for each in following.values()))
    cluster.machines.answer(410, "watch=true")
    cluster.machines.restart_api_server()
    label(cluster, "b")
    until(lambda: (following["b"].job or {})["metadata"]["labels"].get("x") == "y")
    assert "x" not in (following["c"].job or {})["metadata"]["labels"]
    assert len(cluster.machines.server.watches) <= 1


def test_a_namespace_that_may_not_be_listed_is_asked_ever_more_seldom(waits: list[float]) -> None:
    def refuse(path: str, query: Any, **_: Any) -> dict[str, Any]:
        raise module.ApiRefusal(403, "Forbidden", "jobs.batch is forbidden")

    api = Told(lambda _: iter(()))
    api.list = refuse  # type: ignore[method-assign]
    watched = watched_by(api)
    following = watched.follow("j")
    until(lambda: len(waits) > 8)
    assert not following.answered
    following.close()
    until(lambda: watched._thread is None)
    assert waits[:7] == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0]


def test_a_namespace_that_may_not_be_watched_is_no_evidence_and_its_watch_can_be_ended(quick: None) -> None:
    refused = threading.Event()

    def stream(_: str) -> Stream:
        refused.set()
        raise module.ApiRefusal(403, "Forbidden", "jobs.batch is forbidden")

    watched = watched_by(Told(stream))
    following = watched.follow("j")
    assert refused.wait(600.0)
    assert following.job == job_at(1)
    following.close()
    until(lambda: watched._thread is None)


def test_a_proxys_page_in_place_of_an_answer_does_not_end_the_watch(quick: None) -> None:
    listed = json.dumps({"metadata": {"resourceVersion": "1"}, "items": [job_at(1)]}).encode()
    answers = [(200, b"<html>Please log in</html>"), (502, "proxy: où?".encode("latin-1")), (200, listed)]

    def answer(*_: str) -> Answer:
        status, body = answers.pop(0) if answers else (200, b"<html>\n[]\n")
        return status, {}, body

    watched = watched_by(Api(client=client_over(answer), patience_s=0.0))
    following = watched.follow("j")
    assert following.wait_answer(600.0)
    assert following.job == job_at(1)
    following.close()
