"""Pages of a list: what reads each of their things."""

import threading
from typing import Any

import pytest

from ft_assets.server.pages import beyond, page_of


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
