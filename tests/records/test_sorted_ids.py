"""Records by age: a page after any id is what is older, however the records lie in folders."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.records.sorted_ids import ids_in, new_id, record_path, time_of
from ft_resources.store import Store

# Years, with some made in the same milliseconds.
_TIMES = st.lists(st.one_of(st.floats(1.7e9, 1.9e9), st.floats(1.79e9, 1.79e9 + 0.01)), min_size=1, max_size=30)


@given(times=_TIMES, data=st.data())
def test_ids_are_listed_the_newest_first_and_after_any_of_them_the_older(
    tmp_path_factory: pytest.TempPathFactory, times: list[float], data: st.DataObject
) -> None:
    store = Store(str(tmp_path_factory.mktemp("ids")))
    ids = sorted(new_id(at) for at in times)
    for each in ids:
        store.put_json(record_path("acme/jobs", each), {})
    assert list(ids_in(store, "acme/jobs")) == ids
    assert [time_of(each) for each in ids] == sorted((time_of(each) for each in ids), reverse=True)
    place = data.draw(st.integers(0, len(ids) - 1))
    assert list(ids_in(store, "acme/jobs", ids[place])) == ids[place + 1 :]


def test_one_folder_holds_what_was_made_within_five_hours() -> None:
    at = 1.79e9
    paths = {record_path("acme/jobs", new_id(at + minutes * 60)).rpartition("/")[0] for minutes in range(5 * 60)}
    assert 1 <= len(paths) <= 3
