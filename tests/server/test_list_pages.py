"""Pages of a list: what reads each of their things."""

import threading
from typing import Any

import httpx
import pytest

from ft_assets.server.pages import beyond, page_of
from ft_resources.errors import UserError
from tests.e2e.project import Project
from tests.server.conftest import Client, settled, upload
from tests.server.test_wrong_requests import http as http


@pytest.mark.parametrize("at_hand", [True, False])
def test_only_what_has_to_be_waited_for_is_read_by_other_threads(at_hand: bool) -> None:
    readers, looked = set(), []

    def read(name: str) -> dict[str, Any]:
        readers.add(threading.get_ident() == threading.main_thread().ident)
        return {"id": name}

    def ahead(some: Any, _: Any) -> bool:
        looked.append(list(some))
        return at_hand

    page = page_of(beyond(["a", "b", "c"]), read, prefix="", after="", limit=1, ahead=ahead)
    assert (page["data"], page["has_more"], looked) == ([{"id": "a"}], True, [["a", "b"]])
    assert readers == {at_hand}


EVENTS = ["e-ended", "e-model", "e-step-40", "e-step-20", "e-train-main-2", "e-created"]


@pytest.mark.parametrize(
    ("after", "following"),
    [
        ("", EVENTS),
        ("e-step-40", EVENTS[3:]),
        ("e-created", []),
        # What went: steps of an attempt that another took over, and that attempt.
        ("e-step-60", EVENTS[2:]),
        ("e-step-30", EVENTS[3:]),
        ("e-step-10", EVENTS[4:]),
        ("e-train-main-1", EVENTS[5:]),
        ("e-7", []),
        ("e-other", []),
    ],
)
def test_after_what_has_gone_from_a_list_comes_what_came_after_it(after: str, following: list[str]) -> None:
    assert list(beyond(EVENTS)(after)) == following


@pytest.mark.parametrize("after", ["x", "f" * 23, "../" + "f" * 24])
def test_what_is_no_id_is_no_place_in_a_list(after: str) -> None:
    with pytest.raises(UserError, match="in this list"):
        page_of(beyond([]), lambda _: None, prefix="", after=after, limit=1)


def test_files_that_go_while_pages_are_turned_hide_no_other(client: Client) -> None:
    acme = client()
    rows = b'{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n'
    made = [acme.files.create(file=(f"{number}.jsonl", rows), purpose="fine-tune").id for number in range(5)]
    for order, ids in (("desc", made[::-1]), ("asc", made)):
        page = acme.files.list(limit=2, order=order)
        assert [each.id for each in page.data] == ids[:2]
        if order == "desc":
            acme.files.delete(ids[1])
        else:
            ids.remove(made[3])
            acme.files.delete(ids[1])
        assert [each.id for each in page.get_next_page().data] == ids[2:4]


def test_a_stream_that_goes_on_after_an_event_that_has_gone_tells_all_that_there_are(
    project: Project, client: Client, http: httpx.Client
) -> None:
    acme = client()
    job = settled(acme, acme.fine_tuning.jobs.create(model="tiny", training_file=upload(acme, project.dataset())).id).id
    acme.fine_tuning.jobs.cancel(job)
    path = f"/fine_tuning/jobs/{job}/events?stream=true"
    gone = {"last-event-id": f"ftevent-{job.removeprefix('ftjob-')}-step-7"}
    whole, after = (http.get(path, headers=headers).text for headers in ({}, gone))
    assert whole == after
    assert whole.count("\nid: ftevent-") > 2
